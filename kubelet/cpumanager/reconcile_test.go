package cpumanager

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/internal/podconfig"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// fakeRuntime has containers named POD/CONTAINER, and remembers their CPUs.
type fakeRuntime struct {
	mu      sync.Mutex
	ids     []string
	cpus    map[string]string
	updates int
	fail    error
}

func (f *fakeRuntime) ListContainers(_ context.Context, in *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if in.GetFilter().GetState().GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING || in.GetFilter().GetLabelSelector()["node"] != "n" {
		return nil, errors.New("wrong filter")
	}
	out := &runtimeapi.ListContainersResponse{}
	for _, id := range f.ids {
		out.Containers = append(out.Containers, &runtimeapi.Container{Id: id, Labels: map[string]string{
			podconfig.LabelPodUID: filepath.Dir(id), podconfig.LabelContainerName: filepath.Base(id),
		}})
	}
	return out, nil
}

func (f *fakeRuntime) UpdateContainerResources(_ context.Context, in *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	if f.cpus == nil {
		f.cpus = map[string]string{}
	}
	f.updates++
	f.cpus[in.ContainerId] = in.GetLinux().GetCpusetCpus()
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}

func (f *fakeRuntime) expect(t *testing.T, updates int, want string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := fmt.Sprint(f.cpus); f.updates != updates || got != "map["+want+"]" {
		t.Errorf("%d updates to %s, not %d to %s", f.updates, got, updates, want)
	}
}

func (f *fakeRuntime) set(fail error, ids ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.ids = fail, ids
}

func TestReconcile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRuntime{ids: []string{"x/app0"}}
		c := testConfig(dir)
		c.Runtime, c.Labels = f, map[string]string{"node": "n"}
		var ended sync.Map
		c.Active = func(uid types.UID) bool { _, is := ended.Load(uid); return !is }
		m := start(t, c)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { m.Run(ctx) })
		defer group.Wait()
		defer cancel()

		synctest.Wait()
		f.expect(t, 1, "x/app0:0-3")
		time.Sleep(time.Minute)
		synctest.Wait()
		f.expect(t, 1, "x/app0:0-3") // nothing to do

		// A pod gets CPUs: the others leave them at once.
		if err := m.Admit(guaranteed("a", "app 2")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.expect(t, 2, "x/app0:0,3")
		f.set(nil, "x/app0", "a/app0")
		time.Sleep(DefaultReconcilePeriod)
		synctest.Wait()
		f.expect(t, 3, "a/app0:1-2 x/app0:0,3")

		// The runtime refuses: it is asked again after the period.
		f.set(errors.New("no"), "x/app0")
		ended.Store(types.UID("a"), true)
		time.Sleep(DefaultReconcilePeriod)
		synctest.Wait()
		f.expect(t, 3, "a/app0:1-2 x/app0:0,3")
		f.set(nil, "x/app0")
		time.Sleep(DefaultReconcilePeriod)
		synctest.Wait()
		f.expect(t, 4, "a/app0:1-2 x/app0:0-3")

		// A container that ends meanwhile is no error.
		f.set(status.Error(codes.NotFound, "gone"), "y/app0")
		if err := (&reconciler{manager: m}).reconcile(t.Context()); err != nil {
			t.Error(err)
		}
		f.set(errors.New("no"), "y/app0")
		if err := (&reconciler{manager: m}).reconcile(t.Context()); err == nil || err.Error() != "container y/app0: no" {
			t.Error(err)
		}
	})
}

// TestAdmitConcurrently checks that pods that are admitted at the same time do not get the same CPUs.
func TestAdmitConcurrently(t *testing.T) {
	c := testConfig(t.TempDir())
	c.Devices = sys(machine(1, 1, 9, 1))
	m := start(t, c)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			uid := fmt.Sprint("pod", i)
			if m.Admit(guaranteed(uid, "app 1")) == nil && i%2 == 0 {
				m.Release(types.UID(uid))
			}
		})
	}
	group.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.static.check(m.state); err != nil {
		t.Error(err)
	}
}
