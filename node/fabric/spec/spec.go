// Package spec describes a fabric in one value, [Spec]. A Spec has a field for each of the
// [Options]. The package also has the defaults and a table of the options.
//
// The code for flags, run folders, compose and stack files, scenarios and the API all uses
// [Spec]. A programmer who adds an option adds a field to Spec, a row to [Options], and
// the code that acts on the option.
package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"ttfabric/router"
	"ttfabric/router/route"
	"ttfabric/router/topo"
	"ttfabric/ttlink"
	"ttfabric/ttlink/transport"
	"ttfabric/wire"
)

// Values of [Place.Runtime].
const (
	Process   = "process"   // chips are processes of this machine; files may also have ""
	Docker    = "docker"    // chips are containers of the engine that the docker command controls
	Model     = "model"     // one process simulates all chips in virtual time
	Elsewhere = "elsewhere" // chips run on other machines, and the command 'attach' found the chips
)

// Values of [Security.Transport] and [Security.Auth].
const (
	UDP  = "udp"
	QUIC = "quic"
	None = "none" // frames are not encrypted
	PSK  = "psk"  // UDP datagrams are encrypted with a key that all chips share
	MTLS = "mtls" // QUIC with a certificate for each chip
)

// Spec says what a fabric is and how its chips behave. A Spec applies to all chips of
// the fabric, on all machines. The file mesh.json of a run folder and GET /v1/fabric
// hold the JSON form of a Spec.
type Spec struct {
	Name    string    `json:"name"`    // name of the fabric; see [CheckName]
	Source  string    `json:"source"`  // name of the topology
	Created time.Time `json:"created"` // when the fabric was started
	ID      string    `json:"id"`      // first part of the labels of the gossip pools: a text that is drawn at random for each new fabric; if the chips have no run folder, the name of the fabric
	Checked uint32    `json:"checked"` // hash of the routes that [New] checked, or accepted because of AllowDeadlock

	Routing
	Behaviour
	Security
	Records
	Place
}

// Routing says how packets are routed. See package route.
type Routing struct {
	Order         string `json:"order"`                    // xy, yx or none
	Ring          string `json:"ring"`                     // dateline, bubble or none
	Engine        string `json:"engine"`                   // a name of route.Engines
	Fabric        string `json:"fabric"`                   // 1d or 2d
	Exits         string `json:"exits,omitempty"`          // shortest or printed; "": shortest
	AllowDeadlock bool   `json:"allow_deadlock,omitempty"` // accept routes that can deadlock
}

// Behaviour says how each chip behaves.
type Behaviour struct {
	Profile        string       `json:"profile"`                   // timers of the links: lan, crowded or paced; "": [New] chooses
	Slots          string       `json:"slots"`                     // sizes of the router's channels: a name of router.SlotProfiles
	Stuck          string       `json:"stuck"`                     // what a chip does about packets that cannot move; see router.ParseTimeout
	StuckAfter     Milliseconds `json:"stuck_after_milliseconds"`  // time without movement after which a packet counts as stuck; 0: never
	LocalFirst     bool         `json:"local_first"`               // a chip sends its own packets before packets that pass through
	KeepUnreliable bool         `json:"keep_unreliable,omitempty"` // the frames of a link stay on its cable even if the cable is unreliable
	StrictTTL      bool         `json:"strict_ttl,omitempty"`      // a packet whose time to live is 0 is dropped also at its destination
	TTL            int          `json:"ttl"`                       // time to live of a new packet, in hops; 0: the hops of the longest route
	Frame          int          `json:"frame,omitempty"`           // largest payload of a frame, in bytes; 0: the network path alone limits the payload
	PortBase       int          `json:"port_base"`                 // UDP port of the first chip's channel 0; 0: chips use any free ports
	Netem          []string     `json:"netem,omitempty"`           // impairments from the start of the fabric, each as LINK,KNOB=VALUE,…
	HostMemory     string       `json:"host_memory,omitempty"`     // size of the host memory that a chip provides, such as 512m; "": 1g
	Offload        string       `json:"offload,omitempty"`         // use of the kernel's super-packets: on, off or plain; "": on
}

// Security says what transport the links' frames use, and how chips authenticate each other.
type Security struct {
	Transport  string `json:"transport"`             // udp or quic; "": [Security.Settle] chooses
	Auth       string `json:"auth"`                  // none, psk or mtls; "": [Security.Settle] chooses
	PSKFile    string `json:"-"`                     // file that the user names, with the pre-shared key; "": the user named no file
	PKI        string `json:"pki,omitempty"`         // folder of the certificates; "": a folder in the run folder
	KeyLog     string `json:"keylog,omitempty"`      // folder for secrets of QUIC connections; "": chips log no secrets
	Keyed      bool   `json:"encrypted_gossip"`      // whether gossip is encrypted
	GossipKeys string `json:"gossip_keys,omitempty"` // file with the gossip keys; "": a file in the run folder

	said string // option, file or default that Transport and Auth come from, for messages; "" before [Security.Settle]
}

// Records says which records chips write, and where.
type Records struct {
	Archive    string `json:"archive,omitempty"`                // folder of the event archive; "": a folder in the run folder
	ArchiveMiB int    `json:"archive_limit_mib,omitempty"`      // limit of one chip's part of the archive, in MiB; 0: the default
	Record     string `json:"record,omitempty"`                 // folder for recordings of all calls into chips; "": no recordings
	RecordMiB  int    `json:"record_limit_mebibytes,omitempty"` // limit of one recording, in MiB
	// RecordOnce lists further folders for recordings. A user names a further folder with 'chip
	// restart --record', for one start of a chip in a container.
	RecordOnce []string `json:"record_once,omitempty"`
}

// Place says where the chips run: as processes, as containers, or on other machines.
type Place struct {
	Runtime  string   `json:"runtime,omitempty"`  // Process, Docker, Model or Elsewhere
	Project  string   `json:"project,omitempty"`  // compose project of the containers
	Attached []string `json:"attached,omitempty"` // addresses of the APIs through which commands find chips on other machines
	Program  string   `json:"program,omitempty"`  // program that runs in each chip's process; "": ttfabric
}

// Milliseconds is a duration that JSON holds as a whole number of milliseconds.
type Milliseconds time.Duration

// MarshalJSON writes the duration as a number of milliseconds, without the fraction.
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(m).Milliseconds())
}

// UnmarshalJSON reads a whole number of milliseconds.
func (m *Milliseconds) UnmarshalJSON(b []byte) error {
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return nil
}

// Default returns a spec with the default of every option.
func Default() Spec {
	return Spec{
		Routing:   Routing{Order: "xy", Ring: "dateline", Engine: route.Engines[0].Name, Fabric: "2d", Exits: "shortest"},
		Behaviour: Behaviour{Slots: router.SlotSpec.Name, Stuck: "notify", StuckAfter: Milliseconds(10 * time.Second), HostMemory: "1g", Offload: "on"},
		Records:   Records{RecordMiB: DefaultRecordMiB},
	}
}

// validName returns a pattern of valid names of fabrics. A chip does not need the pattern.
var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`) })

// CheckName returns an error of kind [Usage] for a text that cannot be a fabric's name. A name
// consists of 1 to 64 letters, digits, '-', '_' and '.', with a letter or digit first. Any name of
// this form can serve as a file name and as a label.
func CheckName(name string) error {
	if !validName().MatchString(name) {
		return Usagef("fabric name %q: want at most 64 letters, digits, '-', '_' and '.', with a letter or digit first", name)
	}
	return nil
}

// Settle sets an empty Transport or Auth to the value in the topology's file. If the file
// has no value either, Settle sets the default. The default Transport is udp. The default
// Auth is none with udp, and mtls with quic. A second call changes nothing.
func (s *Security) Settle(t *topo.Topology) {
	if s.said != "" {
		return
	}
	var said []string
	from := func(key, flag, file string) string {
		switch {
		case flag != "":
			said = append(said, fmt.Sprintf("--%s %s", key, flag))
		case file != "":
			said = append(said, fmt.Sprintf("%s: %s of the topology's file", key, file))
		}
		return cmp.Or(flag, file)
	}
	s.Transport = cmp.Or(from("transport", s.Transport, t.Transport), UDP)
	s.Auth = cmp.Or(from("auth", s.Auth, t.Auth), map[string]string{UDP: None, QUIC: MTLS}[s.Transport])
	s.said = cmp.Or(strings.Join(said, " and "), "the default")
}

// Check returns an error of kind [Usage] if a value is unknown, or if two values contradict
// each other. The caller calls [Security.Settle] first.
func (s *Security) Check() error {
	switch {
	case !slices.Contains(topo.Transports, s.Transport):
		return Usagef("--transport %q: want udp or quic", s.Transport)
	case !slices.Contains(topo.Auths, s.Auth):
		return Usagef("--auth %q: want none, psk or mtls", s.Auth)
	case s.Transport == QUIC && s.Auth != MTLS:
		return Usagef("%s: QUIC needs certificates; choose --auth mtls, or --transport udp", s.said)
	case s.Transport == UDP && s.Auth == MTLS:
		return Usagef("%s: UDP carries no certificates; choose --transport quic, or --auth psk", s.said)
	case s.PSKFile != "" && s.Auth != PSK:
		return Usagef("--psk-file %s: only --auth psk uses a key; add --auth psk, or leave out --psk-file", s.PSKFile)
	case s.PKI != "" && s.Auth != MTLS:
		return Usagef("--pki %s: only QUIC uses certificates; add --transport quic, or leave out --pki", s.PKI)
	case s.KeyLog != "" && s.Transport != QUIC:
		return Usagef("--keylog %s: only QUIC has secrets to log; add --transport quic, or leave out --keylog, because 'ttfabric capture' shows the frames of encrypted UDP without secrets", s.KeyLog)
	}
	return nil
}

// New returns the complete spec of a fabric with the given name and topology. The
// parameter "want" has the user's choices. New sets an empty Transport, Auth or Profile,
// checks the values, makes the names of folders absolute, and makes the folder of the
// archive. If AllowDeadlock is not set, New also proves the routes free of deadlock. The
// caller checks the name and PortBase, and sets ID, Keyed and the fields of [Place].
func New(name string, t *topo.Topology, want Spec) (Spec, error) {
	s := want
	s.Settle(t)
	if s.Profile == "" {
		s.Profile = ttlink.ProfileLAN.Name
		if s.Transport == QUIC {
			s.Profile = ttlink.ProfilePaced.Name
		}
	}
	s.Name, s.Source, s.Created = name, t.Name, time.Now()
	for _, check := range []func() error{s.checkValues, s.Security.Check, s.places} {
		if err := check(); err != nil {
			return s, err
		}
	}
	for _, text := range s.Netem {
		if _, err := ParseImpairment(t, text); err != nil {
			return s, err
		}
	}
	var err error
	s.Checked, err = s.Prove(t)
	return s, err
}

// checkValues returns an error if [Behaviour] or [Routing] has a value that no chip
// accepts. checkValues does not check Netem, PortBase and Engine.
func (s *Spec) checkValues() error {
	if _, err := s.LinkProfile(); err != nil {
		return err
	}
	if _, err := s.SlotProfile(); err != nil {
		return err
	}
	if _, _, err := s.OffloadModes(); err != nil {
		return err
	}
	if _, err := s.Route(); err != nil {
		return err
	}
	if _, err := s.Timeout(); err != nil {
		return err
	}
	if s.TTL < 0 || s.TTL > math.MaxUint16 {
		return Usagef("--ttl %d: want 0 to %d", s.TTL, math.MaxUint16)
	}
	if s.Frame != 0 && (s.Frame < ttlink.MinPayload || s.Frame > wire.MaxFramePayload) {
		return Usagef("--frame %d: want %d to %d bytes, or 0 for frames as long as the path allows", s.Frame, ttlink.MinPayload, wire.MaxFramePayload)
	}
	_, err := s.HostBytes()
	return err
}

// Limits of the host memory that a chip provides, in bytes. A request can name addresses below 4
// GiB (BDMS, "Addressing").
const (
	minHostMemory = 4 << 10
	maxHostMemory = 4 << 30
)

// HostBytes returns the size of the host memory that a chip provides, in bytes. 0 means none. Run
// folders of older versions have an empty HostMemory, which means 1 GiB.
func (b *Behaviour) HostBytes() (int64, error) {
	switch n := Bytes(b.HostMemory); {
	case b.HostMemory == "":
		return 1 << 30, nil
	case b.HostMemory == "0" || n >= minHostMemory && n <= maxHostMemory:
		return int64(n), nil
	}
	return 0, Usagef("--host-memory %q: want an amount from 4k to 4g, such as 512m, or 0 for none", b.HostMemory)
}

// LinkProfile returns the profile of link timers that the spec names.
func (b *Behaviour) LinkProfile() (ttlink.Profile, error) {
	for _, p := range []ttlink.Profile{ttlink.ProfileLAN, ttlink.ProfileCrowded, ttlink.ProfilePaced} {
		if p.Name == b.Profile {
			return p, nil
		}
	}
	return ttlink.Profile{}, Usagef("--profile %q: want lan, crowded or paced", b.Profile)
}

// SlotProfile returns the profile of channel sizes that the spec names.
func (b *Behaviour) SlotProfile() (router.SlotProfile, error) {
	for _, p := range router.SlotProfiles {
		if p.Name == b.Slots {
			return p, nil
		}
	}
	return router.SlotProfile{}, Usagef("--slots %q: want one of %s", b.Slots, strings.Join(slotNames(), ", "))
}

func slotNames() (names []string) {
	for _, p := range router.SlotProfiles {
		names = append(names, p.Name)
	}
	return names
}

// OffloadModes returns whether chips use the kernel's super-packets (super), and several messages
// per system call (batch). Run folders of older versions have an empty Offload, which means "on".
func (b *Behaviour) OffloadModes() (super, batch transport.Mode, err error) {
	switch b.Offload {
	case "on", "":
		return transport.Auto, transport.Auto, nil
	case "off":
		return transport.Off, transport.Auto, nil
	case "plain":
		return transport.Off, transport.Off, nil
	}
	return 0, 0, Usagef("--offload %q: want on, off or plain", b.Offload)
}

// Timeout returns what a chip does about packets that cannot move, and after what time (Spec §7.3).
func (b *Behaviour) Timeout() (router.Timeout, error) {
	t, err := router.ParseTimeout(b.Stuck)
	if err != nil {
		return t, Usagef("--stuck %w", err)
	}
	if t.After = time.Duration(b.StuckAfter); t.After < 0 {
		return t, Usagef("--stuck-after %v: want 0 or more", t.After)
	}
	return t, nil
}

// Route returns the configuration of the routing engine. If a value is not valid, the
// error names the option. Route does not check Engine.
func (r *Routing) Route() (route.Config, error) {
	cfg := route.Config{Engine: r.Engine}
	var err error
	if cfg.Order, err = route.ParseOrder(r.Order); err != nil {
		return cfg, Usagef("--order: %w", err)
	}
	if cfg.Ring, err = route.ParseRing(r.Ring); err != nil {
		return cfg, Usagef("--ring: %w", err)
	}
	if cfg.Exits, err = route.ParseExits(cmp.Or(r.Exits, route.ShortestExits.String())); err != nil {
		return cfg, Usagef("--exits: %w", err)
	}
	switch r.Fabric {
	case "1d":
		cfg.Lines = true
	case "2d":
	default:
		return cfg, Usagef("--fabric %q: want 1d or 2d", r.Fabric)
	}
	return cfg, nil
}

// Prove plans the routes of a topology and returns the hash of the routes. Prove returns
// an error of kind [Topology] if there is no plan. If AllowDeadlock is not set, Prove also
// returns an error if the routes can deadlock, or if a packet might not arrive.
func (r *Routing) Prove(t *topo.Topology) (uint32, error) {
	cfg, err := r.Route()
	if err != nil {
		return 0, err
	}
	p, err := route.New(t, cfg)
	if err != nil {
		return 0, Topologyf("%w", err)
	}
	if r.AllowDeadlock {
		return p.Hash(), nil
	}
	if v := p.Check(p.Multicasts()); !v.Sound() {
		return 0, Topologyf("the routes of %s are refused, because they %s; --allow-deadlock accepts such routes", t.Name, &v)
	}
	return p.Hash(), nil
}

// Plan returns the routes of a topology while no cable is out of service.
func (r *Routing) Plan(t *topo.Topology) (*route.Plan, error) {
	cfg, err := r.Route()
	if err != nil {
		return nil, err
	}
	p, err := route.New(t, cfg)
	if err != nil {
		return nil, Topologyf("%w", err)
	}
	return p, nil
}

// ChannelStride is the number of UDP ports that each chip takes with [Behaviour.PortBase],
// one port per ethernet channel.
const ChannelStride = wire.MaxChannels
