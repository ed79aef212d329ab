package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// packet holds what tshark shows of one captured packet.
type packet struct {
	number   string
	from     string   // interface, addresses and ports of the packet
	payload  string   // payload of the UDP datagram, in hexadecimal
	protos   []string // protocols that tshark found in the packet, from the outside in
	quoted   bool     // the datagram is quoted in an ICMP message
	luaError string
	layers   []layer // TT-link frames and fabric packets, in the order of tshark's output
}

// layer holds the fields of one frame or packet: the values by name, in the order of tshark's
// output.
type layer struct {
	name   string
	fields map[string][]string
}

// readPDML calls f for each packet of tshark's PDML.
func readPDML(r io.Reader, f func(*packet) error) error {
	d := xml.NewDecoder(r)
	d.Strict = false
	var p *packet
	var at *layer
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "packet":
				p, at = &packet{}, nil
			case "proto":
				at = p.proto(attributes(t))
			case "field":
				p.field(attributes(t), at)
			}
		case xml.EndElement:
			if t.Name.Local == "packet" {
				if err := f(p); err != nil {
					return err
				}
				p = nil
			}
		}
	}
}

func attributes(t xml.StartElement) map[string]string {
	m := make(map[string]string, len(t.Attr))
	for _, a := range t.Attr {
		m[a.Name.Local] = a.Value
	}
	return m
}

// proto begins a protocol, and returns the layer to which the following fields belong. For a
// protocol other than ours, proto returns nil.
func (p *packet) proto(a map[string]string) *layer {
	p.protos = append(p.protos, a["name"])
	switch a["name"] {
	case "icmp", "icmpv6":
		p.quoted = true
	case "ttlink", "ttfabric":
		p.layers = append(p.layers, layer{a["name"], map[string][]string{}})
		return &p.layers[len(p.layers)-1]
	}
	return nil
}

func (p *packet) field(a map[string]string, at *layer) {
	if strings.Contains(a["name"], "lua.error") || strings.Contains(a["showname"], "Lua Error") {
		p.luaError = a["showname"] + a["show"]
	}
	switch a["name"] {
	case "frame.number":
		p.number = a["show"]
	case "frame.interface_id", "frame.interface_name", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "udp.srcport", "udp.dstport":
		p.from += a["show"] + " "
	case "udp.payload":
		if !p.quoted {
			p.payload = a["value"]
		}
	}
	if at == nil {
		return
	}
	v := a["show"]
	if a["name"] == "ttlink.payload" || a["name"] == "ttfabric.data" {
		v = a["value"]
	}
	at.fields[a["name"]] = append(at.fields[a["name"]], v)
}
