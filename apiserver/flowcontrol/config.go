package flowcontrol

import "math"

// Names of the objects that every configuration must contain. Kubernetes creates
// them again when they are deleted.
const (
	ExemptName   = "exempt"
	CatchAllName = "catch-all"
)

// All matches everything where it is the only entry of a list, or the name of a
// subject.
const All = "*"

// Config is a complete configuration. New and Configure keep references to its
// slices, so the caller must not change them afterwards.
type Config struct {
	// Seats is the concurrency limit of the server, which the levels share.
	Seats int
	// Levels are the priority levels, in any order.
	Levels []Level
	// Schemas are the flow schemas, in any order.
	Schemas []Schema
}

// Level is the configuration of a priority level.
type Level struct {
	Name string
	// UID is the UID of the API object that configures the level, if there is one.
	UID string
	// Exempt levels have no limit and no queues. Only the level named exempt may,
	// and must, be exempt.
	Exempt bool
	// Shares is the level's part of Config.Seats, relative to the shares of all levels.
	Shares int
	// LendablePercent is the part of the nominal limit that other levels may borrow.
	LendablePercent int
	// BorrowingLimitPercent bounds what the level borrows, relative to its nominal
	// limit. Nil means no bound.
	BorrowingLimitPercent *int
	// Queues is the number of queues. Zero means that the level rejects a request
	// that finds no free seat.
	Queues int
	// HandSize is the number of queues that a flow may use.
	HandSize int
	// QueueLength is the number of requests that may wait in one queue.
	QueueLength int
}

// Distinguisher says how the requests of a schema are divided into flows.
type Distinguisher int

// The distinguishers. ByNothing makes one flow of all requests of the schema.
const (
	ByNothing Distinguisher = iota
	ByUser
	ByNamespace
)

// Schema assigns the requests that match one of its rules to a priority level.
type Schema struct {
	Name string
	// UID is the UID of the API object that configures the schema, if there is one.
	UID string
	// Precedence is from 1 to 10000. The matching schema with the lowest precedence
	// takes a request; among equals, the one with the first name in byte order.
	Precedence int
	// Level names a priority level.
	Level         string
	Distinguisher Distinguisher
	Rules         []Rule
}

// Rule matches requests of any of its subjects that match any of its resource or
// path rules.
type Rule struct {
	// Users and Groups may contain All.
	Users           []string
	Groups          []string
	ServiceAccounts []ServiceAccount
	Resources       []ResourceRule
	Paths           []PathRule
}

// ServiceAccount is a subject. Name may be All.
type ServiceAccount struct{ Namespace, Name string }

// ResourceRule matches requests for resources. Each list is matched exactly, or is
// All alone. A subresource is written RESOURCE/SUBRESOURCE.
type ResourceRule struct {
	Verbs, APIGroups, Resources, Namespaces []string
	// ClusterScope also matches requests without a namespace.
	ClusterScope bool
}

// PathRule matches requests for paths that are not resources. A path matches itself
// and everything below it; a * after its last slash changes nothing.
type PathRule struct{ Verbs, Paths []string }

// Limits are the bounds on the seats of one level.
type Limits struct {
	// Nominal is the level's share of Config.Seats. Min is what remains when all that
	// is lendable is lent. Max is the nominal limit and what may be borrowed.
	Nominal, Min, Max int
}

// Limits returns the limits of the levels in their order. Nominal limits are rounded
// up, so their sum may exceed Seats by less than one for each level.
func (c *Config) Limits() []Limits {
	shares := 0
	for _, l := range c.Levels {
		shares += l.Shares
	}
	out := make([]Limits, len(c.Levels))
	for i, l := range c.Levels {
		nominal := 0
		if l.Shares > 0 {
			nominal = int(math.Ceil(float64(c.Seats) * float64(l.Shares) / float64(shares)))
		}
		percent := func(p int) int { return int(math.Round(float64(nominal) * float64(p) / 100)) }
		out[i] = Limits{Nominal: nominal, Min: nominal - percent(l.LendablePercent), Max: nominal + c.Seats}
		if l.BorrowingLimitPercent != nil {
			out[i].Max = nominal + percent(*l.BorrowingLimitPercent)
		}
	}
	return out
}

// maxSeats returns how many seats one request of the level may take: 15 % of the
// nominal limit, at most an equal part for each queue of a hand, and at least one.
// Zero means no bound, which is so for levels without queues.
func (l *Level) maxSeats(nominal int) int {
	if l.Queues == 0 {
		return 0
	}
	return max(1, min(int(math.Ceil(float64(nominal)*0.15)), nominal/l.HandSize))
}
