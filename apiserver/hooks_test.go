package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestSummaries: the hooks receive where requests waited, why they ended and whether they are for a deprecated resource.
func TestSummaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ended []apiserver.RequestSummary
		var halves, checks []string
		control := oneSeat(t, 1)
		_, a := inMemory(t, func(c *apiserver.Config) {
			c.FlowControl = control
			c.Resources = append(c.Resources, apiserver.Resource{
				Version: "v1", Kind: "Endpoints", Plural: "endpoints", Namespaced: true,
				New:     func() runtime.Object { return &corev1.Endpoints{} }, //lint:ignore SA1019 the deprecated kind is what is tested
				NewList: func() runtime.Object { return &corev1.EndpointsList{} },
			})
			c.Hooks.Ended = func(s apiserver.RequestSummary) {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, s)
			}
			c.Hooks.Admitted = func(s apiserver.AdmissionSummary) {
				mu.Lock()
				defer mu.Unlock()
				halves = append(halves, fmt.Sprintf("%v %s %v %v", s.Validating, s.Operation, s.Took, s.Rejected))
			}
			c.Hooks.Checked = func(endpoint, check string, err error) {
				checks = append(checks, fmt.Sprintf("%s %s %v", endpoint, check, err))
			}
			c.Admission = admit{
				mutate: func(_ context.Context, r *admission.Request) error {
					time.Sleep(3 * time.Second)
					r.Waited(2 * time.Second)
					return nil
				},
				validate: func(ctx context.Context, r *admission.Request) error {
					switch r.Name {
					case "refused":
						return apierrors.NewTooManyRequests("of a plugin's own", 1)
					case "slow":
						<-ctx.Done()
						return apierrors.NewTimeoutError("slow", 0)
					}
					return nil
				},
			}
		})
		last := func() apiserver.RequestSummary {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return ended[len(ended)-1]
		}
		body := configMap("a", "")
		a.create(configPath, body)
		if s := last(); s.WebhookTime != 2*time.Second || s.BodyBytes != int64(len(body)) || s.Terminated || s.Deprecated {
			t.Errorf("Ended(create) = %+v, want 2s in webhooks, %d bytes, neither terminated nor deprecated", s, len(body))
		}
		a.want(a.do("POST", configPath, configMap("refused", "")), 429, "")
		if s := last(); s.Terminated {
			t.Errorf("Ended(a plugin's 429) = %+v, want not terminated", s)
		}
		a.want(a.do("POST", configPath+"?timeout=5s", configMap("slow", "")), 504, "")
		if s := last(); !s.Terminated {
			t.Errorf("Ended(out of time) = %+v, want terminated", s)
		}
		want := []string{
			"false CREATE 3s false", "true CREATE 0s false",
			"false CREATE 3s false", "true CREATE 0s true",
			"false CREATE 3s false", "true CREATE 2s true",
		}
		if !slices.Equal(halves, want) {
			t.Errorf("Admitted = %q, want %q", halves, want)
		}
		got := a.do("GET", "/api/v1/namespaces/default/endpoints/none", "")
		if s := last(); !s.Deprecated || s.RemovedRelease != "" {
			t.Errorf("Ended(endpoints) = %+v, want deprecated", s)
		}
		warning := `299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"`
		if texts := got.header.Values("Warning"); !slices.Equal(texts, []string{warning}) {
			t.Errorf("GET endpoints warns %q, want %q", texts, warning)
		}
		a.want(a.do("GET", "/readyz/ping", ""), 200, "ok")
		if want := []string{"readyz ping <nil>"}; !slices.Equal(checks, want) {
			t.Errorf("Checked = %q, want %q", checks, want)
		}

		// Two more requests than have room: one executes, one waits until its time in the queue is over.
		var all sync.WaitGroup
		ended = nil
		all.Go(func() { a.do("POST", configPath+"?timeout=30s", configMap("slow", "")) })
		synctest.Wait()
		a.want(a.do("GET", configPath, ""), 429, "")
		if s := last(); !s.Terminated || s.Code != 429 {
			t.Errorf("Ended(no seat) = %+v, want terminated with 429", s)
		}
		all.Wait()
	})
}
