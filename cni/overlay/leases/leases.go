//go:build linux

// Package leases gives the members of an overlay their ranges: each member holds a lease on a part of
// the network, which it renews. The leases of a store are the members of the overlay.
//
//	l, err := leases.New(leases.Config{Store: store, Name: "a", Ranges: []leases.Range{{network, 24}}})
//	subnets, err := l.Acquire(ctx)
//	go l.Run(ctx) // renews
//	o, err := overlay.New(overlay.Config{
//		Local: overlay.Member{Name: "a", Address: address, Subnets: subnets},
//		Members: l, Publish: l.Publish,
//	})
//
// A lease is one record of the [Store]. Its key is the number of the part, and it is created only if
// there is none, so that no part is given twice. The store deletes it when its time to live has passed
// without a renewal. A member that starts again finds its lease by its name, so names must be unique.
//
// Records are not trusted: one that is malformed, or whose ranges are not those of its key, makes its
// member invalid.
package leases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/planekit/planekit/cni/overlay"
)

// Errors of leases.
var (
	// ErrConflict is the error of a [Store] whose record is not at the expected revision.
	ErrConflict = errors.New("lease: the record has changed")
	// ErrFull means that all parts of the network are leased.
	ErrFull = errors.New("lease: no part of the network is free")
	// ErrLost means that the lease expired and another member has its part. The member's pods have
	// addresses of the other one: they must be replaced.
	ErrLost = errors.New("lease: lost to another member")
	// ErrNone means that Acquire has not succeeded.
	ErrNone = errors.New("lease: not acquired")
)

// A Record is a lease in a store.
type Record struct {
	Key   string
	Value []byte
	// Revision identifies this version of the record. It is greater than zero.
	Revision int64
}

// A Store keeps leases. Its methods are safe for concurrent use. After an error other than ErrConflict,
// a write may or may not have been made.
type Store interface {
	// List returns all records whose keys begin with prefix, in the order of keys, and the revision of
	// the listing.
	List(ctx context.Context, prefix string) (records []Record, revision int64, err error)
	// Put writes a record that is at the revision previous, or that does not exist if that is zero, and
	// returns its new revision. The error is ErrConflict otherwise. The store deletes the record when
	// ttl, in whole seconds, has passed without another Put.
	Put(ctx context.Context, key string, value []byte, previous int64, ttl time.Duration) (revision int64, err error)
	// Delete deletes a record that is at the revision previous, or fails with ErrConflict.
	Delete(ctx context.Context, key string, previous int64) error
	// Watch calls handle for every change after a revision, in order, until it fails or ctx is done.
	Watch(ctx context.Context, prefix string, after int64, handle func(r Record, deleted bool)) error
}

// A Range is a network that is divided into parts of equal size.
type Range struct {
	Network netip.Prefix
	// Bits is the length of a part's prefix.
	Bits int
}

// Config configures [Leases].
type Config struct {
	// Store keeps the leases.
	Store Store
	// Prefix begins the keys of leases; empty means "/overlay/leases/".
	Prefix string
	// Name identifies the local member.
	Name string
	// Ranges are divided: a member leases the part with the same number of each. All members must have
	// the same ranges.
	Ranges []Range
	// TTL is how long a lease lasts without a renewal, in whole seconds; zero means 24 h. It is renewed
	// after half of it.
	TTL time.Duration
	// Log gets failures of renewals.
	Log logr.Logger
}

const (
	defaultPrefix = "/overlay/leases/"
	defaultTTL    = 24 * time.Hour
	// maxParts bounds the number of members.
	maxParts = 1 << 16
	// maxRecord is the size in bytes above which a record is refused.
	maxRecord = 4096
	// retries counts the attempts to renew in half a TTL.
	retries = 60
)

// Leases holds the lease of the local member. It is an overlay.Source. Its methods are safe for
// concurrent use.
type Leases struct {
	c     Config
	parts int

	mu       sync.Mutex // held during writes of the own record
	key      string
	revision int64
	member   overlay.Member
}

// New returns leases, of which none is acquired. Errors name the field.
func New(c Config) (*Leases, error) {
	if c.Store == nil {
		return nil, errors.New("leases: Store: missing")
	}
	if c.Name == "" {
		return nil, errors.New("leases: Name: missing")
	}
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.TTL < time.Second || c.TTL%time.Second != 0 {
		return nil, fmt.Errorf("leases: TTL: %v is not in whole seconds", c.TTL)
	}
	if c.Log.GetSink() == nil {
		c.Log = logr.Discard()
	}
	if len(c.Ranges) == 0 {
		return nil, errors.New("leases: Ranges: missing")
	}
	parts := maxParts
	for i, r := range c.Ranges {
		if !r.Network.IsValid() || r.Network != r.Network.Masked() || r.Network.Addr().Is4In6() {
			return nil, fmt.Errorf("leases: Ranges[%d]: %v is no network", i, r.Network)
		}
		if r.Bits < r.Network.Bits() || r.Bits > r.Network.Addr().BitLen() {
			return nil, fmt.Errorf("leases: Ranges[%d]: no parts of /%d in %v", i, r.Bits, r.Network)
		}
		parts = min(parts, 1<<min(r.Bits-r.Network.Bits(), 16))
	}
	return &Leases{c: c, parts: parts}, nil
}

// subnets returns the part with a number of each range.
func (l *Leases) subnets(part int) []netip.Prefix {
	var all []netip.Prefix
	for _, r := range l.c.Ranges {
		b := r.Network.Addr().As16()
		// The number's bits end where those of the part's prefix end, counted in 128 bits.
		end := r.Bits + 128 - r.Network.Addr().BitLen()
		for bit := range 16 {
			if at := end - 1 - bit; part>>bit&1 == 1 {
				b[at/8] |= 1 << (7 - at%8)
			}
		}
		a := netip.AddrFrom16(b)
		if r.Network.Addr().Is4() {
			a = a.Unmap()
		}
		all = append(all, netip.PrefixFrom(a, r.Bits))
	}
	return all
}

func (l *Leases) keyOf(part int) string { return fmt.Sprintf("%s%05d", l.c.Prefix, part) }

func (l *Leases) partOf(key string) (int, error) {
	part, err := strconv.Atoi(strings.TrimPrefix(key, l.c.Prefix))
	if err != nil || part < 0 || part >= l.parts || l.keyOf(part) != key {
		return 0, fmt.Errorf("key %.100q is that of no part", key)
	}
	return part, nil
}

// record is the value of a lease.
type record struct {
	Name     string         `json:"name"`
	Subnets  []netip.Prefix `json:"subnets"`
	Address  netip.Addr     `json:"address,omitzero"`
	Address6 netip.Addr     `json:"address6,omitzero"`
	Backend  string         `json:"backend,omitempty"`
	// Data is parsed by overlay.ParseData.
	Data json.RawMessage `json:"data,omitempty"`
}

func encode(m overlay.Member) ([]byte, error) {
	data, err := json.Marshal(m.Data)
	if err != nil {
		return nil, err
	}
	return json.Marshal(record{m.Name, m.Subnets, m.Address, m.Address6, m.Backend, data})
}

// decode returns the member of a record, which is invalid if the record is.
func (l *Leases) decode(r Record) overlay.Member {
	m, err := l.parse(r)
	if err != nil {
		name := m.Name
		if name == "" {
			name = strings.TrimPrefix(r.Key, l.c.Prefix)
		}
		return overlay.Member{Name: name, Invalid: fmt.Errorf("lease %.100q: %w", r.Key, err)}
	}
	return m
}

func (l *Leases) parse(r Record) (overlay.Member, error) {
	part, err := l.partOf(r.Key)
	if err != nil {
		return overlay.Member{}, err
	}
	if len(r.Value) > maxRecord {
		return overlay.Member{}, fmt.Errorf("%d bytes, more than %d", len(r.Value), maxRecord)
	}
	var v record
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return overlay.Member{}, err
	}
	m := overlay.Member{Name: v.Name, Address: v.Address, Address6: v.Address6, Subnets: v.Subnets, Backend: v.Backend}
	if m.Name == "" {
		return m, errors.New("name: missing")
	}
	if !slices.Equal(v.Subnets, l.subnets(part)) {
		return m, fmt.Errorf("subnets: %v are not those of the key", v.Subnets)
	}
	if len(v.Data) > 0 {
		if m.Data, err = overlay.ParseData(v.Data); err != nil {
			return m, fmt.Errorf("data: %w", err)
		}
	}
	return m, nil
}

// first returns the part that a member tries first, so that members that start together do not all try
// the same.
func (l *Leases) first() int {
	h := fnv.New32a()
	h.Write([]byte(l.c.Name)) // never fails
	return int(h.Sum32() % uint32(l.parts))
}
