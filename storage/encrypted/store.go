package encrypted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/planekit/planekit/storage"
)

// A Rule selects the ciphers for some keys.
type Rule struct {
	// Prefix is the prefix of the keys; an empty prefix matches all keys.
	Prefix storage.Key
	// Ciphers are the encryption keys and the identity. The first encrypts, all decrypt.
	Ciphers []Cipher
}

// Config configures a Store.
type Config struct {
	// Store keeps the encrypted values. Required.
	Store storage.Store
	// Rules are matched in order; the first matching prefix applies. Without rules, values are not
	// encrypted.
	Rules []Rule
}

// A Store is a [storage.Store] that encrypts the values of another store.
type Store struct {
	store storage.Store
	rules []rule
}

type rule struct {
	prefix string
	ring   ring
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Current = (*Store)(nil)
)

// New returns a store. It fails if a rule can never match because of an earlier one.
func New(c Config) (*Store, error) {
	if c.Store == nil {
		return nil, errors.New("encrypted: Store is required")
	}
	s := &Store{store: c.Store}
	for _, r := range c.Rules {
		for _, earlier := range s.rules {
			if strings.HasPrefix(string(r.Prefix), earlier.prefix) {
				return nil, fmt.Errorf("encrypted: the rule for %q has no effect after the one for %q", r.Prefix, earlier.prefix)
			}
		}
		keys, err := newRing(r.Ciphers)
		if err != nil {
			return nil, fmt.Errorf("encrypted: rule for %q: %w", r.Prefix, err)
		}
		s.rules = append(s.rules, rule{prefix: string(r.Prefix), ring: keys})
	}
	s.rules = append(s.rules, rule{ring: ring{{}}})
	return s, nil
}

// ring returns the ciphers for key.
func (s *Store) ring(key storage.Key) ring {
	for _, r := range s.rules {
		if strings.HasPrefix(string(key), r.prefix) {
			return r.ring
		}
	}
	return nil // not reached: the last rule matches every key
}

// open decrypts the value of r.
func (s *Store) open(r *storage.Record) {
	value, stale, err := s.ring(r.Key).open(r.Key, r.Value)
	r.Value, r.Stale = value, stale
	if err != nil {
		r.Damage = fmt.Errorf("%s at revision %d: %w: %w", r.Key, r.Revision, storage.ErrDamaged, err)
	}
}

// Get implements [storage.Store].
func (s *Store) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	r, err := s.store.Get(ctx, key, at)
	if err != nil {
		return r, err
	}
	if s.open(&r); r.Damage != nil {
		return r, fmt.Errorf("get %w", r.Damage)
	}
	return r, nil
}

// List implements [storage.Store].
func (s *Store) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	page, err := s.store.List(ctx, prefix, o)
	if err != nil {
		return page, err
	}
	for i := range page.Records {
		s.open(&page.Records[i])
	}
	return page, nil
}

// Size implements storage.Sized.
func (s *Store) Size(ctx context.Context) (int64, error) { return storage.Size(ctx, s.store) }

// Revision implements [storage.Current].
func (s *Store) Revision(ctx context.Context) (storage.Revision, error) {
	return storage.Now(ctx, s.store)
}

// Commit implements [storage.Store].
func (s *Store) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	if err := c.Check(); err != nil {
		return storage.Record{}, err
	}
	value := c.Value
	if c.Op != storage.Delete {
		var err error
		if c.Value, err = s.ring(c.Key)[0].seal(c.Key, value); err != nil {
			return storage.Record{}, fmt.Errorf("%s %s: %w", c.Op, c.Key, err)
		}
	}
	r, err := s.store.Commit(ctx, c)
	var conflict *storage.ConflictError
	switch {
	case errors.As(err, &conflict):
		opened := *conflict
		s.open(&opened.Current)
		return r, &opened
	case errors.Is(err, storage.ErrExists):
		s.open(&r)
	case err != nil:
	case c.Op == storage.Delete:
		s.open(&r)
	default:
		r.Value = bytes.Clone(value)
	}
	return r, err
}

// Watch implements [storage.Store].
func (s *Store) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	w, err := s.store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	return &watcher{Watcher: w, store: s}, nil
}

// Compact discards the history before revision at. It fails with [errors.ErrUnsupported] if the
// underlying store cannot compact.
func (s *Store) Compact(ctx context.Context, at storage.Revision) error {
	if c, ok := s.store.(interface {
		Compact(context.Context, storage.Revision) error
	}); ok {
		return c.Compact(ctx, at)
	}
	return fmt.Errorf("compact a %T: %w", s.store, errors.ErrUnsupported)
}

// A watcher decrypts the events of another watcher.
type watcher struct {
	storage.Watcher
	store *Store
}

// Next implements [storage.Watcher].
func (w *watcher) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := w.Watcher.Next(ctx)
	for i := range events {
		switch e := &events[i]; e.Type {
		case storage.Created:
			w.store.open(&e.Record)
		case storage.Updated:
			w.store.open(&e.Record)
			w.store.open(&e.Previous)
		case storage.Deleted:
			w.store.open(&e.Previous)
		}
	}
	return events, err
}

// RequestProgress implements [storage.Progresser].
func (w *watcher) RequestProgress(ctx context.Context) error {
	return storage.RequestProgress(ctx, w.Watcher)
}
