package apiserver

import (
	"context"
	"errors"
	"slices"

	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/runtime"
)

// onRecord has try change the request's record, again whenever another change
// came in between (storage.ErrConflict). try returns the object in its new state,
// with the revision of what it has committed, if anything.
//
// It begins with the record as the cache has it, which saves a read and may be
// old. A change which is committed was right, since its guard held. Any other
// outcome stands only if the store has the same record.
func (s *Server) onRecord(q *request, try func(storage.Record) (runtime.Object, error)) (runtime.Object, error) {
	ctx := q.r.Context()
	header := q.w.Header()
	warned, warnings := q.warned, slices.Clone(header["Warning"])
	record, sure, err := s.guess(ctx, q)
	for {
		if err != nil {
			return nil, err
		}
		// What an attempt before this one has warned of is no longer so.
		if header.Del("Warning"); len(warnings) > 0 {
			header["Warning"] = slices.Clone(warnings)
		}
		q.warned = warned.clone()
		obj, failure := try(record)
		conflict := errors.Is(failure, storage.ErrConflict)
		if !conflict && (sure || failure == nil && accessor(obj).GetResourceVersion() != formatRevision(record.Revision)) {
			return obj, failure
		}
		was := record.Revision
		record, err = s.config.Store.Get(ctx, q.key(), 0)
		if err == nil && record.Revision == was && !conflict {
			return obj, failure
		}
		sure = true
	}
}

// guess returns the request's record from the cache, or else from the store,
// which makes it sure.
func (s *Server) guess(ctx context.Context, q *request) (record storage.Record, sure bool, err error) {
	if i, ok := q.kind.cache.Peek(q.key()); ok && i.Err == nil {
		return i.Record, false, nil
	}
	record, err = s.config.Store.Get(ctx, q.key(), 0)
	return record, true, err
}
