package quicport

// Describe implements transport.Describer.
func (p *port) Describe() string { return "QUIC datagrams" }
