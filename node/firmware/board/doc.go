// Package board says what a host reads when it discovers the chips of a fabric: positions and names of
// chips and boards, the state of ethernet tiles, and the words of the ARC processor. The package is pure.
// All words are computed when they are read, so an idle chip has no timer and no copies of them.
//
// # What a host reads
//
// The list has the calls of tt-umd (revision 3ed9cb6d), in their order, and the addresses on the NoC.
//
// Wormhole, init_tt_device, of a local chip or over the ethernet tiles; the ARC tile is (0,10):
//
//	is_noc_hung                 0xFFFB2002C, register of the NIU
//	probe_arc, wait_arc_core_start
//	                            0x880030060 post code 0xC0DE0001, 0x880030074 status, 0x8100784D4 no DMA
//	SmBusArcTelemetryReader     0x820078D60 + 4×49, version of the firmware bundle, at least 18.4
//	WormholeArcTelemetryReader  0x8800301D0 table, 0x8800301D4 values; both plus 0x800000000
//	get_noc_translation_enabled 0x880050100, bit 14
//	message 0xAA57              0x88003006C argument, 0x880030074 code, 0x880030100 bit 16; then status 0x57 and the mask
//
// Wormhole, each ethernet tile:
//
//	read_eth_core_training_status  0x1EFC retrain, 0x1104 status, 0x1440 error
//	is_eth_port_disabled           0x1008;  get_risc_reset_state 0xFFB121B0, bit 11
//	get_eth_heartbeat              0x1C, must change and begin with 0xABCD;  get_eth_fw_version 0x210
//	get_local_eth_coord            0x1108;  get_remote_eth_coord 0x1128, 0x1124
//	verify_routing_firmware_state  0x104C, 1 on a Galaxy, else 0
//	get_local_asic_id              0x1FC0, 0x1FC4;  get_remote_asic_id 0x1FE0, 0x1FE4
//	get_remote_eth_channel         0x1FF0
//
// luwen also reads connection info at 0x1200, and board types at 0x1FD4 and 0x1FF4. Over JTAG, tt-umd reads
// the efuses at the ARC processor's address 0x8004225C; see [AXI].
//
// Blackhole; the ARC tile is (8,0):
//
//	get_noc_translation_enabled    0x80050100, bit 14;  is_noc_hung: PCIe tile (2,0), 0xFFFFFFFFFF000044
//	wait_arc_core_start            0x80030408, the low three bits are 5
//	BlackholeArcTelemetryReader    0x80030434 table, 0x80030430 values
//	BlackholeArcMessageQueue       0x8003042C control block, 0x80030100 bit 16
//	each ethernet tile             0x7CC04 port, 0x7CFBC version, 0x7CFC0 local and 0x7CFE0 remote names
//
// An offset in a tile has 36 bits here. A host's shim must therefore pass only the low 36 bits of
// the address of the PCIe tile's NIU. tt-umd refuses a Blackhole chip without exactly two harvested
// ethernet tiles. The chip therefore reports its last two channels without a cable as harvested. If
// 13 channels or more have cables, tt-umd refuses the chip.
//
// # What follows the running chip
//
// Train status, link error, link state, retrain count and checksum errors follow the link. A cable whose
// frames go over a parallel cable counts as failed. A store of 1 to 0x1EFC makes the link train again. The
// names of the other end are 0 until the link has first come up. Heartbeats follow the chip's time.
// Telemetry that the emulator has no model of, such as temperatures, is not in the table.
package board
