// The program of part 4 of the "Tenstorrent Wormhole Series", for the chips of a running fabric.
// The program asks the base firmware of tile E10 for a register of tile E2 of four chips. The four
// chips are the chip on PCIe, the other chip of the board n300, and two chips that do not exist.
//
//   ttfabric up n300 -d
//   n300                      the environment variable TTFABRIC_NAME names the fabric, if several run
//
// The function do_eth_cmd, the loops of main and the structures are those of the article. The rest stands in
// for /dev/tenstorrent: set_tlb maps the L1 of an ethernet tile, which the chip shares with the program. So
// plain loads and stores reach the tile.

#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "attach.hpp"

struct routing_cmd_t {
  uint32_t target_addr;
  uint16_t target_noc_xy; // From lo to hi: 4 bits zero, 6 bits NoC X, 6 bits NoC Y
  uint16_t target_shelf_xy; // From lo to hi: 6 bits shelf-level X, 6 bits shelf-level Y, 4 bits unused
  union {
    uint32_t inline_data;
    uint32_t data_block_length;
  };
  uint32_t flags;
  uint16_t target_rack_xy; // From lo to hi: 8 bits rack X (rack #), 8 bits rack Y (shelf #)
  uint16_t reserved[5];
  uint32_t data_block_dma_addr;
};

struct eth_queue_t {
  uint32_t wr_req_counter;
  uint32_t wr_resp_counter;
  uint32_t rd_req_counter;
  uint32_t rd_resp_counter;
  uint32_t error_counter;
  uint32_t padding0[3]; // Aligns next field to 16 bytes
  uint32_t wr_idx;
  uint32_t padding1[3]; // Aligns next field to 16 bytes
  uint32_t rd_idx;
  uint32_t padding2[3]; // Aligns next field to 16 bytes
  routing_cmd_t contents[4];
};

struct eth_base_firmware_queues_t {
  uint64_t latency_counter[16];
  eth_queue_t sq; // Contains requests, for host -> E tile
  eth_queue_t reserved;
  eth_queue_t cq; // Contains responses, for E tile -> host
  char padding[4096 - sizeof(uint64_t)*16 - sizeof(eth_queue_t)*3];
  char buffers[4][1024];
};

#define CMD_RD_REQ  (1u << 2)
#define CMD_RD_DATA (1u << 3)

#define RV_ADDR_NOC0_MC_DISABLE_COL 0xFFB20110

// In place of the article's part 2: a device is a chip of the fabric, and a TLB window is a map.

#define TLB_IDX_0 0
#define TLB_CFG_UNICAST(x, y) (((x) << 0) + ((y) << 6))

static ttfabric::Chip* open_device(std::unique_ptr<ttfabric::Fabric>* fabric) {
  std::string why;
  *fabric = ttfabric::Fabric::attach(&why);
  if (!*fabric) {
    fprintf(stderr, "n300: %s\n", why.c_str());
    exit(1);
  }
  return (*fabric)->chips()[0].get();
}

// set_tlb returns the address of a byte of an ethernet tile's L1 in this program. The chip shares the memory
// of no other kind of tile, so loads and stores of a program cannot reach other tiles.
static char* set_tlb(ttfabric::Chip* dev, uint32_t /* every map has its own place */, uint32_t cfg, uint64_t addr) {
  uint32_t x = cfg & 63, y = cfg >> 6 & 63;
  size_t size = 0;
  char* l1 = (char*)dev->map(x, y, &size);
  if (!l1 || addr >= size) {
    fprintf(stderr, "n300: set_tlb for address 0x%llx of tile %u-%u: only the L1 of ethernet tiles can be mapped\n", (unsigned long long)addr, x, y);
    exit(1);
  }
  return l1 + addr;
}

void do_eth_cmd(eth_base_firmware_queues_t* q, routing_cmd_t* c) {
  // Spin while sq full
  uint32_t wr_idx = q->sq.wr_idx;
  uint32_t rd_idx;
  do {
    rd_idx = *(volatile uint32_t*)&q->sq.rd_idx;
  } while ((wr_idx - rd_idx) & 4u);

  // Push to sq
  routing_cmd_t* qc = q->sq.contents + (wr_idx & 3u);
  *(volatile __m256i*)qc = _mm256_loadu_si256((__m256i*)c);
  _mm_sfence();
  *(volatile uint32_t*)&q->sq.wr_idx = (wr_idx + 1) & 7u;

  // Spin while cq empty
  rd_idx = q->cq.rd_idx;
  do {
    wr_idx = *(volatile uint32_t*)&q->cq.wr_idx;
  } while (rd_idx == wr_idx);

  // Wait for cq entry to be populated
  qc = q->cq.contents + (rd_idx & 3u);
  do {
    _mm256_storeu_si256((__m256i*)c, *(volatile __m256i*)qc);
  } while (c->flags == 0);

  // Pop from cq
  *(volatile uint32_t*)&q->cq.rd_idx = (rd_idx + 1) & 7u;
}

int main(int argc, char** argv) {
  std::unique_ptr<ttfabric::Fabric> fabric;
  ttfabric::Chip* dev = open_device(&fabric);
  if (argc == 3) { // another tile than E10, such as 1 1
    set_tlb(dev, TLB_IDX_0, TLB_CFG_UNICAST(atoi(argv[1]), atoi(argv[2])), 0);
  }

  char* l1_tlb = set_tlb(dev, TLB_IDX_0, TLB_CFG_UNICAST(8, 6), 0);
  uint32_t q_addr = *(volatile uint32_t*)(l1_tlb + 0x170);
  eth_base_firmware_queues_t* q = (eth_base_firmware_queues_t*)(l1_tlb + q_addr);

  for (uint32_t shelf_y = 0; shelf_y < 2; ++shelf_y) {
    for (uint32_t shelf_x = 0; shelf_x < 2; ++shelf_x) {
      routing_cmd_t c;
      c.target_rack_xy = (0 << 0) + (0 << 8);
      c.target_shelf_xy = (shelf_x << 0) + (shelf_y << 6);
      c.target_noc_xy = (8 << 4) + (0 << 10);
      c.target_addr = RV_ADDR_NOC0_MC_DISABLE_COL;
      c.flags = CMD_RD_REQ;
      do_eth_cmd(q, &c);
      printf("(%u, %u) -> ", shelf_x, shelf_y);
      if (c.flags == CMD_RD_DATA) {
        printf("value %u\n", c.inline_data);
      } else {
        printf("error %#08x\n", c.flags);
      }
    }
  }
  return 0;
}
