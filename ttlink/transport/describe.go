package transport

// Describer is a port that describes its encryption in a few words, for people who look at the
// port's traffic. A port that is not a Describer sends plain UDP.
type Describer interface {
	Port
	Describe() string
}

// Describe implements [Describer].
func (p *psk) Describe() string { return "UDP, sealed under a pre-shared key" }
