package cpumanager

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTake(t *testing.T) {
	large := machine(2, 1, 4, 2) // two sockets of cores 0-3 and 4-7; the second threads are 8-15
	for _, test := range []struct {
		name      string
		topology  Topology
		available string
		n         int
		want      string
	}{
		{"nothing", large, "0-15", 0, ""},
		{"a whole socket", large, "0-15", 8, "0-3,8-11"},
		{"the other socket, for the first is not whole", large, "1-15", 8, "4-7,12-15"},
		{"a whole core, in the socket with fewer free CPUs", large, "1-15", 2, "1,9"},
		{"a core and a thread", large, "0-15", 3, "0-1,8"},
		{"a single thread completes a used core", large, "1-15", 1, "8"},
		{"a socket and a core", large, "0-15", 10, "0-4,8-12"},
		{"everything", large, "0-15", 16, "0-15"},
		{"threads of different cores, if no core is whole", large, "0,1,12", 2, "0,12"},
		{"two sockets in one node", machine(1, 2, 2, 1), "0-3", 2, "0-1"},
		{"four nodes in two sockets", Topology{
			0: {Core: 0, Socket: 0, Node: 0}, 1: {Core: 1, Socket: 0, Node: 1},
			2: {Core: 2, Socket: 1, Node: 2}, 3: {Core: 3, Socket: 1, Node: 3},
		}, "1-3", 1, "1"},
	} {
		available, err := ParseSet(test.available)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := test.topology.take(available, test.n); err != nil || got.String() != test.want {
			t.Errorf("%s: %d of %s are %q (%v), not %q", test.name, test.n, test.available, got, err, test.want)
		}
	}
	if _, err := large.take(NewSet(1, 2), 3); err == nil || err.Error() != "not enough cpus available to satisfy request: requested=3, available=2" {
		t.Error(err)
	}
}

func TestAdmit(t *testing.T) {
	for _, test := range []struct {
		name       string
		topology   Topology
		options    options
		containers []string
		want       string
	}{
		{"one", machine(1, 1, 4, 1), options{}, []string{"app 2"}, "app0:1-2 shared:0,3"},
		{"not an integer", machine(1, 1, 4, 1), options{}, []string{"app 1500m", "app 1"}, "app1:1 shared:0,2-3"},
		{"an init container's CPUs are used again", machine(1, 1, 4, 1), options{}, []string{"init 3", "app 2", "app 1"}, "app1:1-2 app2:3 init0:1-3 shared:0"},
		{"a sidecar's are not", machine(1, 1, 4, 1), options{}, []string{"side 1", "init 2", "app 2"}, "app2:2-3 init1:2-3 side0:1 shared:0"},
		{"too many", machine(1, 1, 4, 1), options{}, []string{"app 2", "app 2"},
			"UnexpectedAdmissionError: Allocate failed due to not enough cpus available to satisfy request: requested=2, available=1, which is unexpected"},
		{"strict", machine(1, 1, 4, 1), options{strictReservation: true}, []string{"app 2"}, "app0:1-2 shared:3"},
		{"whole cores", machine(1, 1, 4, 2), options{fullCores: true}, []string{"app 2"}, "app0:1,5 shared:0,2-4,6-7"},
		{"half a core", machine(1, 1, 4, 2), options{fullCores: true}, []string{"app 3"},
			"SMTAlignmentError: SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"},
		{"the other thread of the reserved CPU", machine(1, 1, 4, 2), options{fullCores: true}, []string{"app 8"},
			"SMTAlignmentError: SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 6, requested CPUs = 8, CPUs per core = 2"},
		{"whole cores of an init container", machine(1, 1, 2, 2), options{fullCores: true}, []string{"init 2", "app 2"}, "app1:1,3 init0:1,3 shared:0,2"},
	} {
		s, err := newStatic(test.topology, test.options, Set{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.admit(assignments{shared: s.all}, guaranteed("u", test.containers...))
		var got []string
		for name, set := range a.pods["u"] {
			got = append(got, name+":"+set.String())
		}
		// fmt sorts maps, not slices.
		sorted := map[string]bool{}
		for _, text := range got {
			sorted[text] = true
		}
		text := strings.ReplaceAll(strings.TrimPrefix(fmt.Sprint(sorted), "map["), ":true", "")
		text = strings.TrimSuffix(text, "]") + " shared:" + a.shared.String()
		if err != nil {
			reason, message := Refusal(err)
			text = reason + ": " + message
		}
		if text != test.want {
			t.Errorf("%s: got %q, want %q", test.name, text, test.want)
		}
	}
}

func TestNotExclusive(t *testing.T) {
	burstable := guaranteed("u", "app 2")
	delete(burstable.Spec.Containers[0].Resources.Limits, corev1.ResourceMemory)
	burstable.Spec.Containers[0].Resources.Requests = nil
	whole := guaranteed("u", "app 2")
	own := cpus("2")
	whole.Spec.Resources = &own
	for _, pod := range []*corev1.Pod{burstable, whole, {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}}} {
		if n := ExclusiveCPUs(pod, &pod.Spec.Containers[0]); n != 0 {
			t.Errorf("%+v has %d CPUs", pod.Spec, n)
		}
	}
}

// sys is /sys/devices/system of a machine.
func sys(t Topology) fstest.MapFS {
	files := fstest.MapFS{"cpu/online": {Data: []byte(t.All().String() + "\n")}}
	nodes := map[int]Set{}
	for id, cpu := range t {
		dir := fmt.Sprintf("cpu/cpu%d/topology/", id)
		files[dir+"thread_siblings_list"] = &fstest.MapFile{Data: []byte(t.group(core, cpu.Core).String() + "\n")}
		files[dir+"physical_package_id"] = &fstest.MapFile{Data: fmt.Appendln(nil, cpu.Socket)}
		nodes[cpu.Node] = nodes[cpu.Node].Union(NewSet(id))
	}
	var online []int
	for id, set := range nodes {
		online = append(online, id)
		files[fmt.Sprintf("node/node%d/cpulist", id)] = &fstest.MapFile{Data: []byte(set.String() + "\n")}
	}
	files["node/online"] = &fstest.MapFile{Data: []byte(NewSet(online...).String() + "\n")}
	return files
}

func TestReadTopology(t *testing.T) {
	want := machine(2, 2, 3, 2)
	files := sys(want)
	got, err := ReadTopology(files)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	// A CPU is offline: its sibling is alone in the core.
	files["cpu/online"].Data = []byte("1-23\n")
	if got, err := ReadTopology(files); err != nil || len(got) != 23 || got[12].Core != 12 {
		t.Errorf("got %v (%v)", got, err)
	}
	// Virtual machines may not know the package, nor have nodes.
	small := sys(machine(1, 1, 1, 1))
	small["cpu/cpu0/topology/physical_package_id"].Data = []byte("-1\n")
	delete(small, "node/online")
	if got, err := ReadTopology(small); err != nil || len(got) != 1 || got[0] != (CPU{}) {
		t.Errorf("got %v (%v)", got, err)
	}
	for name, text := range map[string]string{
		"cpu/online": "", "cpu/cpu0/topology/thread_siblings_list": "5", "cpu/cpu0/topology/physical_package_id": "x",
		"node/online": "1-0", "node/node0/cpulist": "-",
	} {
		bad := sys(machine(1, 1, 2, 1))
		bad[name].Data = []byte(text)
		if _, err := ReadTopology(bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is %q: %v", name, text, err)
		}
	}
}

// TestChecksum compares with files that Kubernetes v1.36 wrote.
func TestChecksum(t *testing.T) {
	for _, want := range []string{
		`{"policyName":"static","defaultCpuSet":"0,4,6","checksum":148139954}`,
		`{"policyName":"static","defaultCpuSet":"0,4,6","entries":{"u1":{"c1":"1"}},"checksum":2832707527}`,
		`{"policyName":"static","defaultCpuSet":"0,4,6","entries":{"0-b":{"x y\"z":"7,9"},"e":{},"u1":{"a":"5","c1":"1-3"}},"checksum":3665206466}`,
	} {
		a, err := decode(PolicyStatic, []byte(want))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := encode(PolicyStatic, a); err != nil || string(got) != want {
			t.Errorf("got %s (%v), want %s", got, err, want)
		}
	}
}

func testConfig(dir string) Config {
	return Config{
		Policy: PolicyStatic, Reserved: "0", File: filepath.Join(dir, "cpu_manager_state"), Devices: sys(machine(1, 1, 4, 1)),
		Runtime: &fakeRuntime{}, Active: func(types.UID) bool { return true },
	}
}

func start(t *testing.T, c Config) *Manager {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRestart(t *testing.T) {
	c := testConfig(t.TempDir())
	m := start(t, c)
	if err := m.Admit(guaranteed("a", "app 2")); err != nil {
		t.Fatal(err)
	}
	m = start(t, c)
	if got := m.Exclusive("a", "app0").String() + " " + m.For("b", "x").String(); got != "1-2 0,3" {
		t.Errorf("after a restart: %s", got)
	}
	if err := m.Admit(guaranteed("a", "app 2")); err != nil {
		t.Error(err)
	}
	if err := m.Admit(guaranteed("b", "app 2")); err == nil {
		t.Error("a pod got CPUs of another one")
	}
	m.Release("a")
	m.Release("a")
	m = start(t, c)
	if err := m.Admit(guaranteed("b", "app 2")); err != nil || m.For("b", "app0").String() != "1-2" {
		t.Errorf("after the release: %s %v", m.For("b", "app0"), err)
	}
	// Pods that ended while the kubelet was stopped hold nothing.
	c.Active = func(uid types.UID) bool { return uid == "c" }
	m = start(t, c)
	if err := m.Admit(guaranteed("c", "app 3")); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(filepath.Dir(c.File))
	if err != nil || len(entries) != 1 {
		t.Errorf("files: %v %v", entries, err)
	}
}

// TestBrokenState checks that each unusable state file stops the kubelet, with an error that names the file.
func TestBrokenState(t *testing.T) {
	for text, want := range map[string]string{
		"":  "it is empty",
		"{": "unexpected end of JSON input",
		`{"policyName":"static","defaultCpuSet":"0-3","checksum":7}`:                                        "checkpoint is corrupted",
		`{"policyName":"none","defaultCpuSet":""}`:                                                          `configured policy "static" differs from state checkpoint policy "none"`,
		`{"policyName":"static","defaultCpuSet":"0-"}`:                                                      `could not parse default cpu set "0-"`,
		`{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":{"c":"x"}}}`:                           `could not parse cpuset "x" for container "c" in pod "u"`,
		`{"policyName":"static","defaultCpuSet":"","entries":{"u":{"c":"1"}}}`:                              "default cpuset cannot be empty",
		`{"policyName":"static","defaultCpuSet":"1-3"}`:                                                     `not all reserved cpus: "0" are present in defaultCpuSet: "1-3"`,
		`{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":{"c":"1"}}}`:                           `pod: u, container: c cpuset: "1" overlaps with default cpuset "0-3"`,
		`{"policyName":"static","defaultCpuSet":"0,2-3","entries":{"u":{"c":"1"},"v":{"c":"1"}}}`:           "pods u and v both have CPU 1",
		`{"policyName":"static","defaultCpuSet":"0-4"}`:                                                     `current set of available CPUs "0-3" doesn't match with CPUs in state "0-4"`,
		`{"policyName":"static","defaultCpuSet":"0-3","entries":{"id":"1"}}`:                                "cannot unmarshal",
		`{"policyName":"static","defaultCpuSet":"0-3","entries":` + strings.Repeat(" ", maxState) + `null}`: "bytes, more than",
	} {
		c := testConfig(t.TempDir())
		if err := os.WriteFile(c.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, c, want)
	}
	for name, make := range map[string]func(path string) error{
		"it is not a regular file":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"is not a regular file":      func(path string) error { return os.Mkdir(path, 0o700) },
		"too many levels":            func(path string) error { return os.Symlink("/dev/zero", path) },
		"too many levels of symboli": func(path string) error { return os.Symlink("missing", path) },
	} {
		c := testConfig(t.TempDir())
		if err := make(c.File); err != nil {
			t.Fatal(err)
		}
		refused(t, c, name)
	}
	c := testConfig(t.TempDir())
	start(t, c)
	c.Policy = PolicyNone
	refused(t, c, `configured policy "none" differs from state checkpoint policy "static"`)
}

func refused(t *testing.T, c Config, want string) {
	t.Helper()
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Start()
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("delete the CPU manager checkpoint file %q before restarting Kubelet", c.File)) {
		t.Errorf("Start() = %v, want an error with %q that says to delete %s", err, want, c.File)
	}
}

func TestConfig(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`unknown policy: "dynamic"`:                                              func(c *Config) { c.Policy = "dynamic" },
		`unknown CPU Manager Policy option: "x"`:                                 func(c *Config) { c.Options = map[string]string{"x": "true"} },
		`bad value for option "full-pcpus-only"`:                                 func(c *Config) { c.Options = map[string]string{FullPCPUsOnly: "maybe"} },
		`Alpha-level Options not enabled, but option "align-by-socket" provided`: func(c *Config) { c.Options = map[string]string{"align-by-socket": "true"} },
		`option "distribute-cpus-across-numa" is not supported`:                  func(c *Config) { c.Options = map[string]string{"distribute-cpus-across-numa": "true"} },
		`policy "none": received unsupported options=map[full-pcpus-only:true]`: func(c *Config) {
			c.Policy, c.Options = "", map[string]string{FullPCPUsOnly: "true"}
		},
		`requires systemreserved.cpu + kubereserved.cpu to be greater than zero`: func(c *Config) { c.Reserved = "" },
		`reserved CPUs: "a" is not a CPU number`:                                 func(c *Config) { c.Reserved = "a" },
		`the reconcile period -1ns is negative`:                                  func(c *Config) { c.ReconcilePeriod = -1 },
		`the state file "x" is not an absolute path`:                             func(c *Config) { c.File = "x" },
		`-1 reserved milli CPUs are negative`:                                    func(c *Config) { c.ReservedMilliCPU = -1 },
		`needs a runtime`:                                                        func(c *Config) { c.Runtime = nil },
		`Active is missing`:                                                      func(c *Config) { c.Active = nil },
	} {
		c := testConfig(t.TempDir())
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want an error with %q", err, want)
		}
	}
	for want, change := range map[string]func(*Config){
		"reserved CPUs 7 are not among the online CPUs 0-3":                             func(c *Config) { c.Reserved = "0,7" },
		"unable to reserve the required amount of CPUs":                                 func(c *Config) { c.Reserved, c.ReservedMilliCPU = "", 4001 },
		"read the topology of the CPUs: open cpu/online: file does not exist":           func(c *Config) { c.Devices = fstest.MapFS{} },
		"write the state of the CPU manager: open " + filepath.Join("/", "nonexistent"): func(c *Config) { c.File = "/nonexistent/cpu_manager_state" },
	} {
		c := testConfig(t.TempDir())
		change(&c)
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Start() = %v, want an error with %q", err, want)
		}
	}
}

// TestNone checks that the policy none neither writes a file nor confines a container.
func TestNone(t *testing.T) {
	m, err := New(Config{File: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	pod := guaranteed("a", "app 2")
	if err := m.Admit(pod); err != nil || m.For("a", "app0").Len() != 0 || m.RefuseResize(pod) != "" {
		t.Errorf("Admit(a) = %v with CPUs %q and RefuseResize(a) = %q, want nil and none", err, m.For("a", "app0"), m.RefuseResize(pod))
	}
	m.Release("a")
	m.Run(t.Context())
	if _, err := os.Stat(m.config.File); !os.IsNotExist(err) {
		t.Errorf("the state file exists: %v", err)
	}
}

func TestRefuseResize(t *testing.T) {
	m := start(t, testConfig(t.TempDir()))
	if got := m.RefuseResize(guaranteed("a", "app 1500m")); got != `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"` {
		t.Error(got)
	}
	if got := m.RefuseResize(&corev1.Pod{}); got != "" {
		t.Error(got)
	}
}

// TestDiskFull checks that a pod gets no CPUs that a restart would forget, and that a release is saved later.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := testConfig(dir)
	m := start(t, c)
	if err := m.Admit(guaranteed("a", "app 3")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	m.Release("a")
	if err := m.Admit(guaranteed("b", "app 3")); err == nil || m.For("b", "app0").String() != "0-3" {
		t.Errorf("Admit(b) without a place for the state = %v with CPUs %s, want an error and 0-3", err, m.For("b", "app0"))
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	m.retrySave()
	if m = start(t, c); m.For("a", "app0").String() != "0-3" {
		t.Errorf("the release is not in the file: %s", m.For("a", "app0"))
	}
}

func FuzzParseSet(f *testing.F) {
	for _, text := range []string{"", "0", "0-3,7", "3-1", "0-65535,0-65535", "99999999999999999999", "-1", "1,", " 1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ParseSet(text)
		if err != nil {
			return
		}
		again, err := ParseSet(set.String())
		if err != nil || !again.Equal(set) || len(set.ids) > maxCPU+1 {
			t.Errorf("%q is %s, and that is %s (%v)", text, set, again, err)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0,3","entries":{"u":{"c":"1-2"}}}`))
	f.Add([]byte(`{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":null}}`))
	s, err := newStatic(machine(1, 1, 4, 1), options{}, NewSet(0), 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := decode(PolicyStatic, data)
		if err != nil || s.check(a) != nil {
			return
		}
		// Whatever was in the file, no CPU is given twice from now on.
		if next, err := s.admit(a, guaranteed("new", "app 1")); err == nil {
			if err := s.check(next); err != nil {
				t.Errorf("check after decode(%q) and admit = %v, want nil", data, err)
			}
			a = next
		}
		written, err := encode(PolicyStatic, a)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(PolicyStatic, written)
		if err != nil || s.check(again) != nil {
			t.Errorf("%q was written as %s: %v", data, written, err)
		}
	})
}
