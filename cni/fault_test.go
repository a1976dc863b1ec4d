package cni_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
)

type script = map[string]string

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("calls:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// The third field of a call is the number of interfaces in prevResult.

func TestAddInOrderDelInReverse(t *testing.T) {
	b := newBench(t, cni.Config{})
	l := b.list("1.0.0", script{}, script{}, script{})
	result, err := b.invoker.Add(t.Context(), l, web)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Interfaces) != 3 || result.Interfaces[2].Name != "fake-c" {
		t.Errorf("result %+v is not that of the last plugin", result)
	}
	expect(t, b.calls(), "fake-a ADD none", "fake-b ADD 1", "fake-c ADD 2")
	if err := b.invoker.Check(t.Context(), l, web); err != nil {
		t.Error(err)
	}
	expect(t, b.calls(), "fake-a CHECK 3", "fake-b CHECK 3", "fake-c CHECK 3")
	for range 2 { // DEL twice is fine
		if err := b.invoker.Del(t.Context(), l, web); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, b.calls(), "fake-c DEL 3", "fake-b DEL 3", "fake-a DEL 3", "fake-c DEL none", "fake-b DEL none", "fake-a DEL none")
	if err := b.invoker.Check(t.Context(), l, web); !errors.Is(err, cni.ErrNoResult) {
		t.Errorf("check without an attachment: %v", err)
	}
}

func TestThirdFailsAllAreDeleted(t *testing.T) {
	b := newBench(t, cni.Config{})
	l := b.list("1.0.0", script{}, script{}, script{"ADD": `error {"cniVersion":"1.0.0","code":117,"msg":"no luck","details":"at all"}`})
	_, err := b.invoker.Add(t.Context(), l, web)
	e, ok := errors.AsType[*cni.Error](err)
	if !ok || e.Code != 117 || !strings.Contains(err.Error(), "fake-c: no luck: at all") {
		t.Errorf("error %v", err)
	}
	expect(t, b.calls(), "fake-a ADD none", "fake-b ADD 1", "fake-c ADD 2", "fake-c DEL none", "fake-b DEL none", "fake-a DEL none")
	if _, err := b.invoker.Add(t.Context(), b.list("1.0.0", script{}), web); err != nil {
		t.Errorf("add after a failed add that was cleaned up: %v", err)
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct{ name, do, want string }{
		{"exit 0 with garbage", "garbage", "plugin fake-b: result: invalid character"},
		{"failure that is not JSON", "stderr no such luck", `plugin fake-b: exit status 1, stderr: "no such luck"`},
		{"failure with garbage", "error oops", "plugin fake-b: exit status 1"},
		{"too much output", "flood", "output longer than 1048576 bytes"},
		{"incompatible version", `error {"code":1,"msg":"incompatible CNI versions"}`, "(code 1)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, cni.Config{})
			_, err := b.invoker.Add(t.Context(), b.list("1.0.0", script{}, script{"ADD": test.do}), web)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			expect(t, b.calls(), "fake-a ADD none", "fake-b ADD 1", "fake-b DEL none", "fake-a DEL none")
		})
	}
}

// TestCallErrorHasCodeMessageAndStderr: the caller gets all of what a failed plugin says.
func TestCallErrorHasCodeMessageAndStderr(t *testing.T) {
	b := newBench(t, cni.Config{})
	_, err := b.invoker.Add(t.Context(), b.list("1.1.0", script{"ADD": `both {"code":120,"msg":"no luck","details":"at all"}`}), web)
	call, ok := errors.AsType[*cni.CallError](err)
	if !ok || call.Plugin != "fake-a" || call.Command != cni.CmdAdd || call.Stderr != "a long story" {
		t.Errorf("Add: %v with the CallError %#v, want one of fake-a's ADD with the stderr \"a long story\"", err, call)
	}
	e, ok := errors.AsType[*cni.Error](err)
	if !ok || *e != (cni.Error{Code: 120, Msg: "no luck", Details: "at all"}) {
		t.Errorf("Add: %v with the Error %#v, want one with the code 120, \"no luck\" and \"at all\"", err, e)
	}
	if want := `plugin fake-a: no luck: at all (code 120), stderr: "a long story"`; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestValidate(t *testing.T) {
	answers := map[string]string{"good": `{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0"]}`, "bad": "garbage"}
	invoker, err := cni.New(cni.Config{Dir: t.TempDir(), Executor: cni.ExecutorFunc(func(_ context.Context, c cni.Call) ([]byte, error) {
		if answers[c.Type] == "" || c.Command != cni.CmdVersion {
			return nil, cni.ErrNoPlugin
		}
		return []byte(answers[c.Type]), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	list := &cni.List{Name: "net", Version: "1.0.0", Plugins: []cni.Plugin{{Type: "good"}, {Type: "good"}}}
	if err := invoker.Validate(t.Context(), list); err != nil {
		t.Error(err)
	}
	list = &cni.List{Name: "net", Version: "1.1.0", Plugins: []cni.Plugin{{Type: "good"}, {Type: "bad"}, {Type: "absent"}}}
	err = invoker.Validate(t.Context(), list)
	if err == nil || !errors.Is(err, cni.ErrNoPlugin) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{"network net: ", `plugin good: the network needs version 1.1.0, the plugin supports ["0.4.0" "1.0.0"] (code 1)`, "plugin bad: invalid character", "plugin absent: plugin not found"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestCapabilitiesBecomeRuntimeConfig: of the capabilities by convention, a plugin gets those that it
// declares, as the runtime gave them.
func TestCapabilitiesBecomeRuntimeConfig(t *testing.T) {
	given := map[string]any{
		"portMappings": []any{map[string]any{"hostPort": 8080.0, "containerPort": 80.0, "protocol": "tcp"}},
		"bandwidth":    map[string]any{"ingressRate": 2048.0},
		"ipRanges":     []any{[]any{map[string]any{"subnet": "10.1.2.0/24"}}},
		"dns":          map[string]any{"servers": []any{"8.8.8.8"}},
		"ips":          []any{"10.10.0.1/24"},
		"mac":          "c2:11:22:33:44:55",
		"aliases":      []any{"web"},
	}
	for name := range given {
		var got map[string]any
		exec := cni.ExecutorFunc(func(_ context.Context, c cni.Call) ([]byte, error) {
			var conf struct {
				RuntimeConfig map[string]any `json:"runtimeConfig"`
			}
			if err := json.Unmarshal(c.Stdin, &conf); err != nil {
				return nil, err
			}
			got = conf.RuntimeConfig
			return []byte(`{}`), nil
		})
		invoker, err := cni.New(cni.Config{Dir: t.TempDir(), Executor: exec})
		if err != nil {
			t.Fatal(err)
		}
		l, err := cni.ParseList(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"net","type":"p","capabilities":{%q:true,"other":true}}`, name))
		if err != nil {
			t.Fatal(err)
		}
		r := web
		r.Capabilities = given
		if _, err := invoker.Add(t.Context(), l, r); err != nil {
			t.Fatal(err)
		}
		if want := map[string]any{name: given[name]}; !reflect.DeepEqual(got, want) {
			t.Errorf("runtimeConfig %v, want %v", got, want)
		}
		got = nil
		if err := invoker.Del(t.Context(), l, web); err != nil || !reflect.DeepEqual(got, map[string]any{name: given[name]}) {
			t.Errorf("%s on DEL by another runtime: %v %v", name, got, err) // from the record
		}
	}
}

func TestMissingPluginIsNamed(t *testing.T) {
	b := newBench(t, cni.Config{})
	l, err := cni.ParseList([]byte(`{"cniVersion":"1.0.0","name":"net","type":"absent"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.invoker.Add(t.Context(), l, web)
	if !errors.Is(err, cni.ErrNoPlugin) || !strings.Contains(err.Error(), `"absent"`) {
		t.Errorf("error %v", err)
	}
}

func TestHungPluginIsKilledWithItsChildren(t *testing.T) {
	b := newBench(t, cni.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	hangs := make(chan struct{})
	go func() { // however slowly it starts
		defer close(hangs)
		for len(b.pids()) < 2 && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
		cancel()
	}()
	_, err := b.invoker.Add(ctx, b.list("1.0.0", script{}, script{"ADD": "hang"}), web)
	<-hangs
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "plugin fake-b: killed") {
		t.Errorf("error %v", err)
	}
	for _, pid := range b.pids() {
		gone(t, pid)
	}
	expect(t, b.calls(), "fake-a ADD none", "fake-b ADD 1", "fake-b DEL none", "fake-a DEL none")
}

func TestOrphanDoesNotHoldTheCall(t *testing.T) {
	b := newBench(t, cni.Config{})
	if _, err := b.invoker.Add(t.Context(), b.list("1.0.0", script{"ADD": "orphan"}), web); err != nil {
		t.Error(err)
	}
	for _, pid := range b.pids() {
		gone(t, pid)
	}
}

func TestDelStopsAtAFailureAndCanBeRepeated(t *testing.T) {
	b := newBench(t, cni.Config{})
	good := b.list("1.0.0", script{}, script{})
	if _, err := b.invoker.Add(t.Context(), good, web); err != nil {
		t.Fatal(err)
	}
	b.calls()
	if err := b.invoker.Del(t.Context(), b.list("1.0.0", script{}, script{"DEL": "stderr busy"}), web); err == nil {
		t.Error("no error")
	}
	if err := b.invoker.Del(t.Context(), good, web); err != nil {
		t.Error(err)
	}
	expect(t, b.calls(), "fake-b DEL 2", "fake-b DEL 2", "fake-a DEL 2")
}

func TestTornRecord(t *testing.T) {
	b := newBench(t, cni.Config{})
	l := b.list("1.0.0", script{})
	if _, err := b.invoker.Add(t.Context(), l, web); err != nil {
		t.Fatal(err)
	}
	b.calls()
	files, err := filepath.Glob(filepath.Join(b.dir, "state", "results", "net", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 20); err != nil {
		t.Fatal(err)
	}
	if err := b.invoker.Check(t.Context(), l, web); !errors.Is(err, cni.ErrNoResult) {
		t.Errorf("check: %v", err)
	}
	if err := b.invoker.Del(t.Context(), l, web); err != nil {
		t.Error(err)
	}
	expect(t, b.calls(), "fake-a DEL none")
}

func TestGCDeletesWhatIsNotValid(t *testing.T) {
	b := newBench(t, cni.Config{})
	l := b.list("1.1.0", script{"GC": "dump"})
	for _, id := range []string{"a", "b"} {
		if _, err := b.invoker.Add(t.Context(), l, cni.RuntimeConfig{ContainerID: id, NetNS: "/x", IfName: "eth0"}); err != nil {
			t.Fatal(err)
		}
	}
	b.calls()
	if err := b.invoker.GC(t.Context(), l, []cni.Attachment{{ContainerID: "a", IfName: "eth0"}}); err != nil {
		t.Fatal(err)
	}
	expect(t, b.calls(), "fake-a DEL 1", "fake-a GC none")
	stdin, err := os.ReadFile(filepath.Join(b.dir, "log.stdin"))
	if err != nil || !strings.Contains(string(stdin), `"cni.dev/valid-attachments":[{"containerID":"a","ifname":"eth0"}]`) {
		t.Errorf("stdin of GC: %s %v", stdin, err)
	}
}

func TestStatusAndVersionsBefore(t *testing.T) {
	b := newBench(t, cni.Config{})
	down := script{"STATUS": `error {"code":50,"msg":"not yet"}`}
	err := b.invoker.Status(t.Context(), b.list("1.1.0", script{}, down))
	if e, ok := errors.AsType[*cni.Error](err); !ok || e.Code != cni.CodeNotAvailable {
		t.Errorf("status: %v", err)
	}
	b.calls()
	old := b.list("0.3.1", down)
	if _, err := b.invoker.Add(t.Context(), old, web); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(b.invoker.Status(t.Context(), old), b.invoker.Check(t.Context(), old, web),
		b.invoker.GC(t.Context(), old, nil))
	if err != nil {
		t.Error(err)
	}
	expect(t, b.calls(), "fake-a ADD none", "fake-a DEL none")
}

func TestEnvironmentAndConfiguration(t *testing.T) {
	t.Setenv("CNI_STRAY", "1")
	b := newBench(t, cni.Config{})
	l := b.list("1.0.0", script{"ADD": "dump"}, script{})
	r := web
	r.Args = cni.PodArgs("default", "nginx", "web", "123")
	r.Capabilities = map[string]any{"mac": "02:00:00:00:00:01", "bandwidth": map[string]int{"ingressRate": 1}}
	if _, err := b.invoker.Add(t.Context(), l, r); err != nil {
		t.Fatal(err)
	}
	env, err := os.ReadFile(filepath.Join(b.dir, "log.env"))
	if err != nil {
		t.Fatal(err)
	}
	vars := strings.Split(string(env), "\n")
	for _, want := range []string{
		"CNI_COMMAND=ADD", "CNI_CONTAINERID=web", "CNI_NETNS=/run/netns/web", "CNI_IFNAME=eth0",
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=nginx;K8S_POD_INFRA_CONTAINER_ID=web;K8S_POD_UID=123",
		"CNI_PATH=" + filepath.Join(b.dir, "missing") + ":" + b.dir,
	} {
		if !slices.Contains(vars, want) {
			t.Errorf("no %s in the environment", want)
		}
	}
	if slices.Contains(vars, "CNI_STRAY=1") {
		t.Error("a stray CNI variable was handed on")
	}
	stdin, err := os.ReadFile(filepath.Join(b.dir, "log.stdin"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(stdin), `"runtimeConfig":{"mac":"02:00:00:00:00:01"}`) ||
		strings.Contains(string(stdin), "capabilities") || strings.Contains(string(stdin), "bandwidth") {
		t.Errorf("stdin %s", stdin)
	}
}

func TestOneContainerNeverInParallel(t *testing.T) {
	var mu sync.Mutex
	running := make(map[string]int)
	most := make(map[string]int)
	var all, allMost int
	exec := cni.ExecutorFunc(func(ctx context.Context, c cni.Call) ([]byte, error) {
		enter := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			running[c.ContainerID] += d
			all += d
			most[c.ContainerID] = max(most[c.ContainerID], running[c.ContainerID])
			allMost = max(allMost, all)
		}
		enter(1)
		defer enter(-1)
		<-time.After(2 * time.Millisecond)
		return []byte(`{}`), nil
	})
	dir := t.TempDir()
	l, err := cni.ParseList([]byte(`{"cniVersion":"1.0.0","name":"net","type":"p"}`))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 12 {
		invoker, err := cni.New(cni.Config{Dir: dir, Executor: exec}) // as other processes would
		if err != nil {
			t.Fatal(err)
		}
		r := cni.RuntimeConfig{ContainerID: string(rune('a' + n%3)), NetNS: "/x", IfName: "eth0"}
		wg.Go(func() {
			for range 5 {
				if _, err := invoker.Add(t.Context(), l, r); err != nil && !errors.Is(err, cni.ErrExists) {
					t.Error(err)
				}
				if err := invoker.Del(t.Context(), l, r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range most {
		if n != 1 {
			t.Errorf("%d calls for container %s at once", n, id)
		}
	}
	if allMost < 2 {
		t.Errorf("no two containers were served at once")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*", "*")); len(left) > 0 {
		t.Errorf("records left: %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "locks", "*")); len(left) > 0 {
		t.Errorf("locks left: %v", left)
	}
}

func TestLockHolderHangs(t *testing.T) {
	dir := t.TempDir()
	unlock, err := cni.FileLock(t.Context(), filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := cni.FileLock(ctx, filepath.Join(dir, "lock")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	unlock()
	unlock, err = cni.FileLock(t.Context(), filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
