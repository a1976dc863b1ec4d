package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// storeFailures are the ways in which a store fails, and the code of the answer.
var storeFailures = map[string]struct {
	err  error
	code int
}{
	"full":        {fmt.Errorf("create /a: %w", storage.ErrFull), http.StatusInsufficientStorage},
	"closed":      {storage.ErrClosed, http.StatusServiceUnavailable},
	"late":        {context.DeadlineExceeded, http.StatusGatewayTimeout},
	"anything":    {errors.New("the disk is on fire"), http.StatusInternalServerError},
	"lost answer": {storagetest.ErrLost, http.StatusInternalServerError},
}

// A store that fails gives each verb an answer of its own, which is never one that
// blames the client.
func TestEveryVerbOnBrokenStore(t *testing.T) {
	requests := []struct{ method, path, body, header string }{
		{"POST", configPath, configMap("new", ""), ""},
		{"POST", configPath + "?dryRun=All", configMap("new", ""), ""},
		{"GET", configPath + "/web", "", ""},
		{"GET", configPath, "", ""},
		{"GET", configPath + "?watch=true", "", ""},
		{"PUT", configPath + "/web", configMap("web", `,"data":{"a":"b"}`), ""},
		{"PATCH", configPath + "/web", `{"data":{"a":"b"}}`, mergePatch},
		{"PATCH", configPath + "/web?fieldManager=m", configMap("web", `,"data":{"a":"b"}`), applyPatch},
		{"DELETE", configPath + "/web", "", ""},
		{"DELETE", configPath, "", ""},
	}
	for name, failure := range storeFailures {
		for _, r := range requests {
			t.Run(name+"/"+r.method+" "+r.path, func(t *testing.T) {
				store := &switched{Store: memstore.New()}
				a := start(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store }))
				a.create(configPath, configMap("web", ""))
				store.Store = storagetest.FailAfter(store.Store, 0, failure.err)
				var headers []string
				if r.header != "" {
					headers = append(headers, r.header)
				}
				got := a.do(r.method, r.path, r.body, headers...)
				if r.path == configPath+"?dryRun=All" && got.code == http.StatusCreated {
					return // it has not asked the store
				}
				status := into[metav1.Status](t, got)
				if got.code != failure.code || status.Kind != "Status" || status.Message == "" || int(status.Code) != failure.code {
					t.Errorf("%d %s, want %d", got.code, got.body, failure.code)
				}
			})
		}
	}
}

// A switched store can be exchanged while nothing uses it.
type switched struct{ storage.Store }

// Admission that could not decide is not a refusal, however a plugin words it.
func TestAdmissionOnBrokenStore(t *testing.T) {
	forbidden := func(err error) func(context.Context, *admission.Request) error {
		return func(_ context.Context, r *admission.Request) error {
			return admission.Forbidden(r, fmt.Errorf("look up: %w", err))
		}
	}
	plain := func(err error) func(context.Context, *admission.Request) error {
		return func(context.Context, *admission.Request) error { return fmt.Errorf("look up: %w", err) }
	}
	full := &apierrors.StatusError{ErrStatus: metav1.Status{Status: "Failure", Code: 507, Message: "full"}}
	for _, c := range []struct {
		name string
		err  error
		code int
	}{
		{"full", storage.ErrFull, 507}, {"closed", storage.ErrClosed, 503}, {"late", context.DeadlineExceeded, 504},
		{"full elsewhere", full, 507}, {"internal", apierrors.NewInternalError(errors.New("x")), 500},
		{"unavailable", apierrors.NewServiceUnavailable("x"), 503}, {"busy", apierrors.NewTooManyRequests("x", 1), 429},
		{"refusal", errors.New("no"), 403},
	} {
		for how, wrap := range map[string]func(error) func(context.Context, *admission.Request) error{"forbidden": forbidden, "plain": plain} {
			for step, chain := range map[string]admission.Chain{
				"mutate":   {Mutators: []admission.Mutator{admission.MutatorFunc(wrap(c.err))}},
				"validate": {Validators: []admission.Validator{admission.ValidatorFunc(wrap(c.err))}},
			} {
				t.Run(c.name+"/"+how+"/"+step, func(t *testing.T) {
					a := start(t, apiservertest.WithConfig(func(s *apiserver.Config) { s.Admission = chain }))
					if got := a.do("POST", configPath, configMap("a", "")); got.code != c.code {
						t.Errorf("%d %s, want %d", got.code, got.body, c.code)
					}
				})
			}
		}
	}
}
