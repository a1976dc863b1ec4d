package apiserver

import (
	"context"

	"github.com/planekit/planekit/storage"
)

// An unknownOutcome is the error of a commit that may have taken effect, or may do so later. It ends
// the request: another attempt could apply the request to its own effect, and the record as it is
// read afterwards does not prove the opposite.
type unknownOutcome struct{ error }

func (u *unknownOutcome) Unwrap() error { return u.error }

// commit makes the change of a request. Its error is an unknownOutcome unless nothing was changed.
func (s *Server) commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	record, err := s.config.Store.Commit(ctx, c)
	if err != nil && !storage.Refused(err) {
		return storage.Record{}, &unknownOutcome{err}
	}
	return record, err
}
