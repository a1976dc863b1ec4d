//go:build linux

package leases_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/cni/overlay"
	"github.com/planekit/planekit/cni/overlay/leases"
)

// memStore is a store in memory.
type memStore struct {
	mu       sync.Mutex
	revision int64
	records  map[string]leases.Record
	expiry   map[string]*time.Timer
	history  []event // the event at index i made revision i+1
	watchers map[chan event]bool
	// broken is the error of all writes, lose that of writes that are made nevertheless.
	broken, lose error
}

type event struct {
	record  leases.Record
	deleted bool
}

func newMemStore() *memStore {
	return &memStore{records: map[string]leases.Record{}, expiry: map[string]*time.Timer{}, watchers: map[chan event]bool{}}
}

func (s *memStore) List(_ context.Context, prefix string) ([]leases.Record, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []leases.Record
	for key, r := range s.records {
		if strings.HasPrefix(key, prefix) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b leases.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, s.revision, nil
}

func (s *memStore) Put(_ context.Context, key string, value []byte, previous int64, ttl time.Duration) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return 0, s.broken
	}
	if s.records[key].Revision != previous {
		return 0, leases.ErrConflict
	}
	s.revision++
	r := leases.Record{Key: key, Value: value, Revision: s.revision}
	s.records[key] = r
	if t := s.expiry[key]; t != nil {
		t.Stop()
	}
	s.expiry[key] = time.AfterFunc(ttl, func() { _ = s.Delete(context.Background(), key, r.Revision) })
	s.send(event{r, false})
	return r.Revision, s.lose
}

func (s *memStore) Delete(_ context.Context, key string, previous int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records[key].Revision != previous {
		return leases.ErrConflict
	}
	s.expiry[key].Stop()
	delete(s.records, key)
	s.revision++
	s.send(event{leases.Record{Key: key, Revision: s.revision}, true})
	return nil
}

// send reports a change to those that watch. The caller holds the lock.
func (s *memStore) send(e event) {
	s.history = append(s.history, e)
	for w := range s.watchers {
		w <- e
	}
}

func (s *memStore) Watch(ctx context.Context, _ string, after int64, handle func(leases.Record, bool)) error {
	events := make(chan event, 1000) // more than any test makes
	s.mu.Lock()
	for _, e := range s.history[after:] {
		events <- e
	}
	s.watchers[events] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, events)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			handle(e.record, e.deleted)
		}
	}
}

// ranges have 64 parts.
var ranges = []leases.Range{
	{Network: netip.MustParsePrefix("10.64.0.0/18"), Bits: 24}, {Network: netip.MustParsePrefix("fd63:64::/48"), Bits: 64},
}

func newLeases(t testing.TB, s leases.Store, name string) *leases.Leases {
	t.Helper()
	l, err := leases.New(leases.Config{Store: s, Name: name, Ranges: ranges})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Two members lease parts of two networks.
func Example() {
	store := newMemStore() // in a program: one that members share
	for _, name := range []string{"a", "b"} {
		l, err := leases.New(leases.Config{Store: store, Name: name, Ranges: []leases.Range{
			{Network: netip.MustParsePrefix("10.64.0.0/16"), Bits: 24}, {Network: netip.MustParsePrefix("fd63:64::/48"), Bits: 64},
		}})
		if err != nil {
			log.Fatal(err)
		}
		subnets, err := l.Acquire(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, subnets)
	}
	// Output:
	// a [10.64.44.0/24 fd63:64:0:2c::/64]
	// b [10.64.229.0/24 fd63:64:0:e5::/64]
}

// TestConcurrent checks that members that start together get different parts, and all of them.
func TestConcurrent(t *testing.T) {
	s := newMemStore()
	var wait sync.WaitGroup
	var mu sync.Mutex
	owners := map[netip.Prefix]string{}
	for i := range 100 {
		wait.Go(func() {
			name := fmt.Sprintf("m%d", i)
			subnets, err := newLeases(t, s, name).Acquire(t.Context())
			if errors.Is(err, leases.ErrFull) {
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, p := range subnets {
				if owner, ok := owners[p]; ok {
					t.Errorf("%v is leased to %s and %s", p, owner, name)
				}
				owners[p] = name
			}
		})
	}
	wait.Wait()
	if len(owners) != 128 {
		t.Errorf("%d ranges are leased, not all 128", len(owners))
	}
}

// TestLifetime lets leases be renewed, kept over a restart, expire and be lost.
func TestLifetime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMemStore()
		l := newLeases(t, s, "a")
		subnets, err := l.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(10 * 24 * time.Hour)
		if records, _, _ := s.List(ctx, ""); len(records) != 1 {
			t.Errorf("after ten days, %d leases", len(records))
		}
		s.setErrors(nil, errors.New("the answer is lost"))
		time.Sleep(24 * time.Hour)
		s.setErrors(nil, nil)
		time.Sleep(24 * time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}

		time.Sleep(23 * time.Hour)
		again, err := newLeases(t, s, "a").Acquire(t.Context())
		if err != nil || !slices.Equal(again, subnets) {
			t.Errorf("after a restart: %v, %v, want %v", again, err, subnets)
		}
		time.Sleep(25 * time.Hour)
		if records, _, _ := s.List(t.Context(), ""); len(records) != 0 {
			t.Errorf("after a day without renewals, %d leases", len(records))
		}
	})
}

func (s *memStore) setErrors(broken, lose error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken, s.lose = broken, lose
}

// TestLost checks that an expired lease is taken back if it is free, and reported if it is not.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, taken := range []bool{false, true} {
			s := newMemStore()
			l := newLeases(t, s, "a")
			subnets, err := l.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- l.Run(ctx) }()
			s.setErrors(errors.New("unreachable"), nil)
			time.Sleep(48*time.Hour + time.Minute) // between two attempts
			s.setErrors(nil, nil)
			if taken { // all parts, so also that one
				for i := range 64 {
					if _, err := newLeases(t, s, fmt.Sprintf("thief%d", i)).Acquire(ctx); err != nil {
						t.Fatal(err)
					}
				}
				if err := <-done; !errors.Is(err, leases.ErrLost) {
					t.Errorf("Run: %v", err)
				}
			} else {
				time.Sleep(time.Hour)
				if records, _, _ := s.List(ctx, ""); len(records) != 1 {
					t.Errorf("%d leases, want that of %v", len(records), subnets)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			cancel()
			for _, timer := range s.expiry {
				timer.Stop()
			}
		}
	})
}

// TestFollow checks that members see each other come and go, and that malformed records are refused.
func TestFollow(t *testing.T) {
	s := newMemStore()
	a, b := newLeases(t, s, "a"), newLeases(t, s, "b")
	subnets, err := a.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), overlay.Member{Name: "b"}); !errors.Is(err, leases.ErrNone) {
		t.Errorf("Publish without a lease: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan []overlay.Member, 100) // more than there are changes
	done := make(chan error, 1)
	go func() { done <- b.Follow(ctx, func(all []overlay.Member) { seen <- all }) }()
	await := func(what string, ok func(all []overlay.Member) bool) {
		t.Helper()
		for {
			select {
			case all := <-seen:
				if ok(all) {
					return
				}
			case <-time.After(time.Minute):
				t.Fatal(what)
			}
		}
	}
	m := overlay.Member{
		Name: "a", Address: netip.MustParseAddr("10.63.0.1"), Subnets: subnets, Backend: overlay.VXLAN,
		Data: overlay.Data{MAC: overlay.MAC{2, 1}, VNI: 1, Port: 8472},
	}
	if err := a.Publish(ctx, m); err != nil {
		t.Fatal(err)
	}
	await("the member", func(all []overlay.Member) bool { return len(all) == 1 && reflect.DeepEqual(all[0], m) })
	wrong := m
	wrong.Subnets = wrong.Subnets[:1]
	if err := a.Publish(ctx, wrong); err == nil {
		t.Error("a member with other ranges is published")
	}
	for key, value := range map[string]string{
		"/overlay/leases/00001": `garbage`, "/overlay/leases/x": `{"name":"x"}`, "/overlay/leases/99999": `{"name":"x"}`,
		"/overlay/leases/00002": `{"name":"x","subnets":["` + subnets[0].String() + `"]}`,
		"/overlay/leases/00003": `{"name":"` + strings.Repeat("x", 5000) + `"}`,
		"/overlay/leases/00004": `{"name":"y","subnets":["10.64.4.0/24","fd63:64:0:4::/64"],"data":{"vni":-1}}`,
	} {
		if _, err := s.Put(ctx, key, []byte(value), 0, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	await("the hostile", func(all []overlay.Member) bool {
		invalid := 0
		for _, m := range all {
			if m.Invalid != nil && len(m.Subnets) == 0 && len(m.Invalid.Error()) < 300 {
				invalid++
			}
		}
		return invalid == 6 && len(all) == 7
	})
	if err := a.Release(ctx); err != nil {
		t.Fatal(err)
	}
	await("the leaver", func(all []overlay.Member) bool { return len(all) == 6 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConfigErrors(t *testing.T) {
	for want, c := range map[string]leases.Config{
		"Store":     {Name: "a", Ranges: ranges},
		"Name":      {Store: newMemStore(), Ranges: ranges},
		"Ranges: m": {Store: newMemStore(), Name: "a"},
		"TTL":       {Store: newMemStore(), Name: "a", Ranges: ranges, TTL: time.Millisecond},
		"Ranges[0]": {Store: newMemStore(), Name: "a", Ranges: []leases.Range{{Network: ranges[0].Network, Bits: 8}}},
	} {
		if _, err := leases.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want an error with %q", err, want)
		}
	}
}
