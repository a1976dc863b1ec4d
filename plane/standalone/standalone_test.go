package standalone

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/plane/stack"
	"go.uber.org/goleak"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long the test waits for each step.
const patience = 2 * time.Minute

const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: main, image: nginx}]}\n"

// TestRun starts a pod of the directory, another one, and ends the first with its file.
func TestRun(t *testing.T) {
	root, err := os.MkdirTemp("", "kl") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	manifests := t.TempDir()
	write := func(name string) {
		t.Helper()
		// A name with a dot is not read, so that no manifest is read half.
		half := filepath.Join(manifests, "."+name)
		err := os.WriteFile(half, []byte(strings.Replace(pod, "NAME", name, 1)), 0o600)
		if err == nil {
			err = os.Rename(half, filepath.Join(manifests, name+".yaml"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("web")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(root, "none")) // the pods run without logind
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, Config{Root: root, Manifests: manifests, Period: 10 * time.Millisecond, Shutdown: shutdown.Config{GracePeriod: time.Minute}})
	}()
	await(t, root, "web-standalone")
	write("db")
	await(t, root, "db-standalone", "web-standalone")
	if err := os.Remove(filepath.Join(manifests, "web.yaml")); err != nil {
		t.Fatal(err)
	}
	await(t, root, "db-standalone")
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// await waits until the runtime runs exactly these pods.
func await(t *testing.T, root string, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		got := running(t, root)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pods %v run, want %v", got, want)
		}
	}
}

// running returns the names of the pods with a running container.
func running(t *testing.T, root string) []string {
	t.Helper()
	containers, err := cri.Dial(t.Context(), filepath.Join(root, "cri.sock"), cri.Options{})
	if err != nil {
		return nil // not there yet
	}
	defer containers.Close()
	list, err := containers.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil
	}
	var names []string
	for _, c := range list.Containers {
		if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
			names = append(names, c.Labels["io.kubernetes.pod.name"])
		}
	}
	slices.Sort(names)
	return names
}

// run runs a node with a simulated runtime until ctx is done.
func run(ctx context.Context, c Config) error {
	s := stack.New()
	return s.Main(ctx, func(ctx context.Context) error {
		if err := Simulate(ctx, s, &c); err != nil {
			return err
		}
		_, err := Start(ctx, s, c)
		return err
	})
}

// TestPrecedence: fields of Config go before those of the file, and what neither has is Kubernetes' default.
func TestPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	err := os.WriteFile(file, []byte(header+"podCIDR: 10.1.0.0/24\nshutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 10s\nmaxPods: 5\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	settings, err := readSettings(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config Config
		ranges string
		ending shutdown.Config
	}{
		{Config{}, "10.1.0.0/24", shutdown.Config{GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second}},
		{Config{PodCIDR: "10.2.0.0/24", Shutdown: shutdown.Config{GracePeriod: time.Minute}}, "10.2.0.0/24", shutdown.Config{GracePeriod: time.Minute, CriticalPods: 10 * time.Second}},
		{
			Config{Shutdown: shutdown.Config{ByPodPriority: []shutdown.Period{{Priority: 1, Grace: time.Second}}}}, "10.1.0.0/24",
			shutdown.Config{GracePeriod: 30 * time.Second, CriticalPods: 10 * time.Second, ByPodPriority: []shutdown.Period{{Priority: 1, Grace: time.Second}}},
		},
	} {
		test.config.Root = "/r"
		test.config.Kubelet = func(k *kubelet.Config) { k.HostName = "host" }
		k, err := test.config.kubelet(settings)
		if err != nil {
			t.Fatal(err)
		}
		if k.PodCIDR != test.ranges || !reflect.DeepEqual(k.Shutdown, test.ending) || k.NodeName != "standalone" || k.LogRoot != "/r/logs" || k.HostName != "host" || k.Capacity.Pods().Value() != 5 {
			t.Errorf("kubelet() of %+v has PodCIDR %q, Shutdown %+v, NodeName %q, LogRoot %q, HostName %q and Capacity %v, "+
				"want %q, %+v, standalone, /r/logs, host and 5 pods",
				test.config, k.PodCIDR, k.Shutdown, k.NodeName, k.LogRoot, k.HostName, k.Capacity, test.ranges, test.ending)
		}
	}
}
