package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"ttfabric/node/admin/api"
	"ttfabric/node/session"
	"ttfabric/wire"
	"ttfabric/wire/capture"
)

// TestCaptureStream captures a write over the API, ends the capture, and checks the captured
// packets.
func TestCaptureStream(t *testing.T) {
	t.Parallel()
	machine, addrs, stop, err := start()
	defer stop()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	here, there := machine.Chips[0].Node, machine.Chips[1].Node
	cl := api.NewClient(addrs[0], token, here, machine)
	s := session.New(cl)
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	st, err := cl.Capture(ctx, api.CaptureBody{ID: "mine", Filter: "data or update", Keys: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := cl.Capture(ctx, api.CaptureBody{ID: "mine"}); err == nil || !strings.Contains(err.Error(), `already a capture with the id "mine"`) {
		t.Errorf("a second capture with the same id: %v", err)
	}
	if err := s.Write(ctx, there, wire.NewNocAddr(1, 1, 0), make([]byte, 200_000)); err != nil {
		t.Fatal(err)
	}
	if err := st.End(ctx); err != nil {
		t.Fatal(err)
	}
	checkStream(t, st, here, there)
	var refused *api.StatusError
	for want, b := range map[string]api.CaptureBody{`"tcp", word 1`: {Filter: "tcp"}, "snaplen=-1": {SnapLen: -1}, "no cable at channel 15": {Channels: []wire.Channel{15}}, "buffer=99999": {BufferMiB: 99999}} {
		if _, err := cl.Capture(ctx, b); err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &refused) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for range 20 { // a capture must end when its reader disconnects, because a chip allows only 8 captures
		st, err := cl.Capture(ctx, api.CaptureBody{})
		for ; errors.As(err, &refused) && ctx.Err() == nil; st, err = cl.Capture(ctx, api.CaptureBody{}) {
			time.Sleep(5 * time.Millisecond) // wait until the chip has noticed that earlier readers have disconnected
		}
		if err != nil {
			t.Fatal(err)
		}
		st.Close()
	}
	resp, err := http.Get("http://" + addrs[0] + "/v1/capture")
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v, %v", resp, err)
	}
	checkNg(t, addrs[0])
}

// checkStream reads a stream to its end. The stream must hold about fifty packets of 4 KiB to the
// other chip, and matching statistics.
func checkStream(t *testing.T, st *api.CaptureStream, here, there wire.FabricNodeID) {
	t.Helper()
	var names []string
	var stats [wire.MaxChannels]capture.Statistics
	var d capture.Decoder
	ids := map[uint64]bool{}
	n := 0
	r, err := capture.NewReader(st)
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		switch {
		case err != nil:
			t.Fatal(err)
		case b.Interface != nil:
			names = append(names, b.Interface.Name)
		case b.Statistics != nil:
			stats[b.Of] = *b.Statistics
		case b.Packet != nil:
			n++
			g := gopacket.NewPacket(b.Packet.Data, layers.LayerTypeEthernet, gopacket.Default)
			udp, ok := g.Layer(layers.LayerTypeUDP).(*layers.UDP)
			if !ok || b.Packet.ID == 0 || b.Packet.Dir == capture.DirUnknown {
				t.Fatalf("%+v", b.Packet)
			}
			for _, l := range d.Datagram(g.NetworkLayer().NetworkFlow().String(), udp.Payload) {
				if f, ok := l.(*capture.Fabric); ok && f.Packet.Type == wire.PacketRequest && f.Packet.Src == here && f.Packet.Dst == there {
					ids[f.Packet.ID] = true
				}
			}
		}
	}
	if len(names) != 2 || names[0] != "M0D0/eth8" && names[0] != "M0D0/eth0" {
		t.Errorf("interfaces %q", names)
	}
	if len(ids) != 49 {
		t.Errorf("%d requests of 4 KiB for 200,000 bytes", len(ids))
	}
	if got := stats[0].Accepted + stats[1].Accepted; int(got) != n || stats[0].Dropped+stats[1].Dropped != 0 || stats[0].Received < stats[0].Accepted {
		t.Errorf("%d packets, statistics %+v", n, stats[:2])
	}
}

// checkNg checks that gopacket can read the API's answer.
func checkNg(t *testing.T, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/v1/capture?snaplen=80&filter=update", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	ng, err := pcapgo.NewNgReader(resp.Body, pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, ci, err := ng.ReadPacketData() // the link's keepalives include sequence updates
	if err != nil || len(data) != 80 || ci.Length != 14+20+8+wire.FrameOverhead+wire.UpdateLen {
		t.Errorf("%d bytes, %+v, %v", len(data), ci, err)
	}
}
