package transport

// Describer is a port that describes itself, for people who look at its traffic. A port that is not
// a Describer is plain UDP.
type Describer interface {
	Port
	Describe() string
}

// Describe implements [Describer].
func (p *psk) Describe() string { return "UDP, sealed under a pre-shared key" }
