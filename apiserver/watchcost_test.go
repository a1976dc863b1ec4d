package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/internal/used"
)

// TestWatchesWithManyRequirements: 20 watches with 30,000 requirements each take little time for each
// write.
func TestWatchesWithManyRequirements(t *testing.T) {
	const watches, requirements, writes = 20, 30_000, 150
	server := apiservertest.Start(t, apiservertest.WithResources(resources()...))
	a := &api{t, server.As("admin", "system:masters"), "http://memory"}
	a.create(podPath, busyPod("p", ""))
	var selectors [2]strings.Builder
	for i := range requirements {
		fmt.Fprintf(&selectors[0], "app!=v%d,", i)
		fmt.Fprintf(&selectors[1], "!x%d,", i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watchers, round sync.WaitGroup
	for i := range watches {
		round.Add(1)
		query := url.QueryEscape(strings.TrimSuffix(selectors[i%2].String(), ","))
		watchers.Go(func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, podPath+"?watch=true&labelSelector="+query, nil)
			r.Header.Set("Accept", protoMedia)
			r.Header.Set("Authorization", "Bearer "+server.Token)
			server.ServeHTTP(&rounds{discard: discard{header: http.Header{}}, round: &round}, r)
		})
	}
	round.Wait()
	began := used.Processor()
	for i := range writes {
		round.Add(watches)
		a.want(a.do("PATCH", podPath+"/p", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, i), mergePatch), 200, "")
		round.Wait()
	}
	took := used.Processor() - began
	t.Logf("%d writes take %v of processor time", writes, took)
	if took > time.Second*(1+slowdown/5) {
		t.Errorf("%d writes to %d watches with %d requirements take %v of processor time, want less than 1s", writes, watches, requirements, took)
	}
	cancel()
	watchers.Wait()
}
