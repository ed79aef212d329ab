package chip

import "ttfabric/node/flow"

// Request is [flow.Request]: one NoC command for a chip, or for a group of chips.
type Request = flow.Request

// Result is [flow.Result]: what became of a request.
type Result = flow.Result

// MemberResult is [flow.MemberResult]: what became of a multicast at one of its members.
type MemberResult = flow.MemberResult

// Fate is [flow.Fate]: how a request ended, and how sure that is.
type Fate = flow.Fate

// The fates of a request, see package flow.
const (
	FateDone    = flow.FateDone
	FateRefused = flow.FateRefused
	FateLost    = flow.FateLost
	FateUnknown = flow.FateUnknown
)

// Doubt is [flow.Doubt]: why an outcome is unknown.
type Doubt = flow.Doubt

// The reasons for doubt, see package flow.
const (
	DoubtNone        = flow.DoubtNone
	DoubtRestarted   = flow.DoubtRestarted
	DoubtRouteDead   = flow.DoubtRouteDead
	DoubtTimeout     = flow.DoubtTimeout
	DoubtUnreachable = flow.DoubtUnreachable
	DoubtOlder       = flow.DoubtOlder
	DoubtLate        = flow.DoubtLate
	NumDoubts        = flow.NumDoubts
)

// Admission is [flow.Admission]: whether a request was taken.
type Admission = flow.Admission

// The answers of HandleRequest, see package flow.
const (
	Accepted    = flow.Accepted
	Busy        = flow.Busy
	NoSuchChip  = flow.NoSuchChip
	NoSuchPlane = flow.NoSuchPlane
	Unreachable = flow.Unreachable
	TooLarge    = flow.TooLarge
	BadVia      = flow.BadVia
	BadRanges   = flow.BadRanges
)

// Ends is [flow.Ends]: how a chip's requests to one chip have ended.
type Ends = flow.Ends

// Moment is [flow.Moment]: how a chip's requests have ended up to now.
type Moment = flow.Moment

// Limits and times of flows, see package flow.
const (
	MaxOutstanding = flow.MaxOutstanding
	MaxResults     = flow.MaxResults
	MaxGroups      = flow.MaxGroups
	MaxMembers     = flow.MaxMembers
	ProbeAfter     = flow.ProbeAfter
	FlowTimeout    = flow.FlowTimeout
	FlowIdle       = flow.FlowIdle
)
