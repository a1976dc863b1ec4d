package relist_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"github.com/planekit/planekit/kubelet/internal/relist"
)

// runtime lists one sandbox for each pod.
type runtime struct {
	mu   sync.Mutex
	pods map[string]runtimeapi.PodSandboxState
	err  error
}

func (r *runtime) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *runtime) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &runtimeapi.ListPodSandboxResponse{}
	for uid, state := range r.pods {
		out.Items = append(out.Items, &runtimeapi.PodSandbox{Id: "s-" + uid, State: state, Labels: map[string]string{podconfig.LabelPodUID: uid}})
	}
	return out, r.err
}

func (r *runtime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}

// TestChanges: each change is reported once. A pod of which nothing is left has an empty digest. A runtime that
// does not list is unhealthy after three minutes.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &runtime{pods: map[string]runtimeapi.PodSandboxState{"a": 0, "b": 0}}
		var told []string
		all := 0
		lister := relist.New(relist.Config{
			Runtime: r, NodeName: "n", SyncPeriod: time.Minute, WakeAll: func() { all++ }, Wake: func(types.UID) {},
			Changed: func(uid types.UID, digest string) {
				told = append(told, strings.TrimSpace(string(uid)+" "+digest))
			},
		})
		if err := lister.Health(); err != nil {
			t.Errorf("before Run: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go lister.Run(ctx)
		expect := func(want ...string) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if slices.Sort(told); !slices.Equal(told, want) {
				t.Errorf("told %q, want %q", told, want)
			}
			told = nil
		}
		expect("a s-aSANDBOX_READY", "b s-bSANDBOX_READY")
		expect()
		r.set(func() { r.pods["a"] = runtimeapi.PodSandboxState_SANDBOX_NOTREADY; delete(r.pods, "b") })
		expect("a s-aSANDBOX_NOTREADY", "b")
		r.set(func() { r.err = errors.New("database is locked") })
		time.Sleep(3*time.Minute + 10*time.Second)
		if err := lister.Health(); err == nil {
			t.Error("a runtime that does not list is healthy")
		}
		r.set(func() { r.err = nil })
		expect()
		if err := lister.Health(); err != nil || all != 3 {
			t.Errorf("%v, %d syncs of all pods", err, all)
		}
	})
}
