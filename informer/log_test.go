package informer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/informer"
)

type thing struct{ name string }

// refusing is a Source whose server refuses every request.
type refusing struct{}

func (refusing) Sync(context.Context, string, informer.Sink[*thing]) error {
	return errors.New("things is forbidden")
}

// TestFirstFailureIsLogged checks that a failure before the first list is logged at once, with the
// type of the objects.
func TestFirstFailureIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		inf, err := informer.New(informer.Config[*thing]{
			Source: refusing{}, Key: func(o *thing) string { return o.name }, Revision: func(*thing) string { return "" },
			Log: funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		synctest.Wait()
		if len(lines) != 1 || !strings.Contains(lines[0], "*informer_test.thing") || !strings.Contains(lines[0], "things is forbidden") {
			t.Errorf("logged %q", lines)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
