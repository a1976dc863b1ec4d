package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/planekit/planekit/storage"
)

// adoption is the work of adopt: a token for whoever does it, closed when it is
// done.
type adoption chan struct{}

func newAdoption() adoption {
	a := make(adoption, 1)
	a <- struct{}{}
	return a
}

// adopt claims what stored objects hold without a claim: those that another
// program has stored. It is done once, before anything is allocated, since
// servers claim before they store. Such a claim has no time: whether its object
// is still there is looked at whenever somebody wants the name.
func (s *Server) adopt(ctx context.Context, k *kind) (err error) {
	select {
	case _, todo := <-k.adoption:
		if !todo {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if err == nil {
			close(k.adoption)
			return
		}
		k.adoption <- struct{}{}
	}()
	// The claims first: an object that is stored after they are read is claimed for
	// by whoever stores it.
	claims, err := s.config.Store.List(ctx, storage.Key(k.held), storage.ListOptions{})
	if err != nil {
		return err
	}
	claimed := make(map[storage.Key]bool, len(claims.Records))
	for _, record := range claims.Records {
		claimed[record.Key] = true
	}
	objects, err := s.config.Store.List(ctx, storage.Key(k.root), storage.ListOptions{})
	if err != nil {
		return err
	}
	for _, record := range objects.Records {
		if err := s.adoptOne(ctx, k, record, claimed); err != nil {
			return fmt.Errorf("claim for %s: %w", record.Key, err)
		}
	}
	return nil
}

// adoptOne claims what one object holds. What cannot be decoded holds nothing
// that is known.
func (s *Server) adoptOne(ctx context.Context, k *kind, record storage.Record, claimed map[storage.Key]bool) error {
	obj, err := k.decode(record)
	if err != nil {
		s.config.Log.Error(err, "object left out of allocation", "key", string(record.Key))
		return nil
	}
	for _, name := range k.Allocation.Names(obj) {
		key := storage.Key(k.held + name)
		if claimed[key] {
			continue
		}
		value, err := json.Marshal(claim{Holder: record.Key, UID: accessor(obj).GetUID()})
		if err != nil {
			return err
		}
		_, err = s.config.Store.Commit(ctx, storage.Change{Op: storage.Create, Key: key, Value: value})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
	}
	return nil
}
