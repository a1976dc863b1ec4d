package stoppods

import (
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestRemove: a removal that meets another one is tried again for some seconds; other errors are returned at once.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			failures, tries int
			code            codes.Code
		}{{0, 1, codes.OK}, {2, 3, codes.NotFound}, {5, 1, codes.Unavailable}, {1 << 20, 102, codes.NotFound}} {
			tries := 0
			err := remove(t.Context(), func() error {
				if tries++; tries <= test.failures {
					return status.Error(test.code, "as told")
				}
				return nil
			})
			if failed := test.tries <= test.failures; tries < test.tries-1 || tries > test.tries || (err != nil) != failed {
				t.Errorf("%d failures with %v: %v after %d tries", test.failures, test.code, err, tries)
			}
		}
	})
}
