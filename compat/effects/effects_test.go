package effects

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var (
	writes = flag.Int("writes", 400, "the number of acknowledged writes")
	seed   = flag.Uint64("seed", 1, "the seed of the faults")
	limit  = flag.Duration("limit", 2*time.Minute, "the time after which the writers end")
)

const (
	path = "/api/v1/namespaces/default/serviceaccounts"
	// life is the number of requests for one object, the last of which mostly delete it.
	life    = 40
	writers = 12
)

// An op is what a request for an object does.
type op struct {
	kind  string // POST, PATCH, DELETE or GET
	value string // that a PATCH appends
}

// A state is an object as the model has it, and the answer to a request.
type state struct {
	exists bool
	list   string // the appended values, each ending with a comma
}

// An outcome is the answer to a request: code, and the object with a code below 300. Zero is an unknown outcome.
type outcome struct {
	code int
	list string
}

// model has one object.
var model = porcupine.Model{
	Init:              func() any { return state{} },
	Step:              func(was, in, out any) (bool, any) { return step(was.(state), in.(op), out.(outcome)) },
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v: %v", in, out) },
}

func step(was state, in op, out outcome) (bool, any) {
	next, want := was, http.StatusOK
	switch {
	case in.kind == http.MethodPost && was.exists:
		want = http.StatusConflict
	case in.kind == http.MethodPost:
		next, want = state{true, "first,"}, http.StatusCreated
	case !was.exists:
		want = http.StatusNotFound
	case in.kind == http.MethodPatch:
		next.list += in.value + ","
	case in.kind == http.MethodDelete:
		next = state{}
	}
	if out.code == 0 {
		return true, next // after the last read, if it had no effect
	}
	shows := in.kind != http.MethodDelete && out.code < 300
	return out.code == want && (!shows || out.list == next.list), next
}

// A history is what clients saw.
type history struct {
	clock, acknowledged, unknown atomic.Int64

	mu  sync.Mutex
	ops map[string][]porcupine.Operation // by object; under mu
}

func server(t *testing.T, all members) *http.Client {
	t.Helper()
	s, err := apiserver.New(apiserver.Config{
		Store: all.store(t),
		Resources: []apiserver.Resource{{
			Version: "v1", Kind: "ServiceAccount", Plural: "serviceaccounts", Namespaced: true,
			New:     func() runtime.Object { return &corev1.ServiceAccount{} },
			NewList: func() runtime.Object { return &corev1.ServiceAccountList{} },
		}},
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, nil }),
		Authorizer:    authz.Superusers("all"),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &http.Client{Transport: s.Transport(&user.Info{Name: "u", Groups: []string{"all"}})}
}

// send sends one request and records what it was answered.
func (h *history) send(ctx context.Context, t *testing.T, client *http.Client, name string, in op, id int) {
	target, body, media := path+"/"+name, "", "application/json"
	switch in.kind {
	case http.MethodPost:
		target, body = path, fmt.Sprintf(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q},"imagePullSecrets":[{"name":"first"}]}`, name)
	case http.MethodPatch:
		media = "application/json-patch+json"
		body = fmt.Sprintf(`[{"op":"add","path":"/imagePullSecrets/-","value":{"name":%q}}]`, in.value)
	}
	r, err := http.NewRequestWithContext(ctx, in.kind, "http://memory"+target, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Error(err)
		return
	}
	r.Header.Set("Content-Type", media)
	began := h.clock.Add(1)
	code, text := answer(client, r)
	o := porcupine.Operation{ClientId: id, Input: in, Call: began, Return: h.clock.Add(1)}
	out := outcome{code: code}
	switch {
	case code == 0 || code >= 500 || code == http.StatusTooManyRequests:
		if in.kind == http.MethodGet {
			return
		}
		h.unknown.Add(1)
		out.code, o.Return = 0, math.MaxInt64
	case code < 300:
		if in.kind != http.MethodGet {
			h.acknowledged.Add(1)
		}
		var account corev1.ServiceAccount
		if err := json.Unmarshal(text, &account); err != nil {
			t.Errorf("%s %s = %d %s, error %v, want a service account", in.kind, target, code, text, err)
		}
		for _, secret := range account.ImagePullSecrets {
			out.list += secret.Name + ","
		}
	}
	o.Output = out
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops[name] = append(h.ops[name], o)
}

func answer(client *http.Client, r *http.Request) (code int, body []byte) {
	response, err := client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	if body, err = io.ReadAll(response.Body); err != nil {
		return 0, nil
	}
	return response.StatusCode, body
}

// request returns the n-th request.
func request(n int64, random *rand.Rand) (name string, in op) {
	name, in.kind = fmt.Sprintf("o%d", n/life), http.MethodPatch
	dice := random.IntN(100)
	switch {
	case n%life == 0, dice < 3:
		in.kind = http.MethodPost
	case n%life == life-1, dice < 5:
		in.kind = http.MethodDelete
	case dice < 15:
		in.kind = http.MethodGet
	default:
		in.value = fmt.Sprint(n)
	}
	return name, in
}

// seen returns ops without the appends of unknown outcome that no answer shows: if some order explains the
// others, one with these at the end does, and the search would try them everywhere.
func seen(ops []porcupine.Operation) []porcupine.Operation {
	shown := map[string]bool{}
	for _, o := range ops {
		for value := range strings.SplitSeq(o.Output.(outcome).list, ",") {
			shown[value] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(ops), func(o porcupine.Operation) bool {
		in := o.Input.(op)
		return o.Output.(outcome).code == 0 && in.kind == http.MethodPatch && !shown[in.value]
	})
}

// TestEffects: clients of two API servers create, append to, read and delete objects by requests without
// conditions while members are in trouble. Of each object, some order of the requests explains every answer: no
// append is lost or made twice, and none that was refused has an effect.
func TestEffects(t *testing.T) {
	all := startMembers(t)
	clients := []*http.Client{server(t, all), server(t, all)}
	h := &history{ops: map[string][]porcupine.Operation{}}
	var begun atomic.Int64
	began := time.Now()
	troubled, end := context.WithCancel(t.Context())
	defer end()
	count := map[string]int{}
	var trouble, group sync.WaitGroup
	trouble.Go(func() { all.trouble(troubled, t, rand.New(rand.NewPCG(*seed, 0)), count) })
	for w := range writers {
		group.Go(func() {
			random := rand.New(rand.NewPCG(*seed, uint64(w)+1))
			for h.acknowledged.Load() < int64(*writes) && time.Since(began) < *limit {
				name, in := request(begun.Add(1)-1, random)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				h.send(ctx, t, clients[random.IntN(len(clients))], name, in, w)
				cancel()
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	end()
	trouble.Wait()
	for name := range h.ops {
		for i, client := range clients {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			h.send(ctx, t, client, name, op{kind: http.MethodGet}, writers+i)
			cancel()
		}
	}
	for name, ops := range h.ops {
		if result := porcupine.CheckOperationsTimeout(model, seen(ops), time.Minute); result != porcupine.Ok {
			t.Errorf("seed %d: object %s: the answers to %d requests are %s, want %s", *seed, name, len(ops), result, porcupine.Ok)
			for _, o := range ops {
				t.Logf("%s: %d to %d: %+v: %+v", name, o.Call, o.Return, o.Input, o.Output)
			}
		}
	}
	t.Logf("seed %d: %d acknowledged writes, %d of unknown outcome, %d requests in %v, faults %v",
		*seed, h.acknowledged.Load(), h.unknown.Load(), begun.Load(), took.Round(time.Millisecond), count)
	if h.acknowledged.Load() < int64(*writes) {
		t.Errorf("seed %d: %d writes were acknowledged in %v, want %d", *seed, h.acknowledged.Load(), took, *writes)
	}
}
