package transport

// Describer is a port that says what it is, for people who look at its traffic.
// One that isn't is plain UDP.
type Describer interface {
	Port
	Describe() string
}

// Describe implements [Describer].
func (p *psk) Describe() string { return "UDP, sealed under a pre-shared key" }
