package kubelet_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cri"
)

const actorImage = "planekit.test/actor:1"

// containerd is a containerd of the test's own.
type containerd struct {
	dir    string // all that it has, and short: socket paths are bounded
	socket string
	daemon *exec.Cmd
}

const containerdConfig = `version = 2
root = "%[1]s/root"
state = "%[1]s/state"
[grpc]
  address = "%[1]s/c.sock"
[ttrpc]
  address = "%[1]s/t.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "planekit.test/actor:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[1]s/cni"
    conf_dir = "%[1]s/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`

// startContainerd starts one after it has called prepare with its directory.
func startContainerd(t *testing.T, prepare ...func(dir string)) *containerd {
	t.Helper()
	for _, tool := range []string{"containerd", "ctr", "runc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("containerd needs root")
	}
	dir, err := os.MkdirTemp("", "kl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := &containerd{dir: dir, socket: dir + "/c.sock"}
	if err := os.WriteFile(dir+"/config.toml", fmt.Appendf(nil, containerdConfig, dir), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/net.d", "/cni"} {
		if err := os.Mkdir(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range prepare {
		f(dir)
	}
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon := exec.Command("containerd", "-c", dir+"/config.toml")
	daemon.Stdout, daemon.Stderr = log, log
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	c.daemon = daemon
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(dir + "/log")
			t.Logf("containerd said:\n%s", text[max(0, len(text)-4000):])
		}
		if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		daemon.Wait()
	})
	return c
}

// load puts the test's image into containerd.
func (c *containerd) load(t *testing.T) {
	t.Helper()
	binary := c.dir + "/actor"
	build := exec.Command("go", "build", "-o", binary, "./testdata/actor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build actor: %v\n%s", err, out)
	}
	for _, plugin := range []string{"actor", "loopback"} {
		if err := os.Link(binary, c.dir+"/cni/"+plugin); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := layerOf(map[string][]byte{"actor": program, "data/words": []byte("hello")})
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{"/actor"}}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(actorImage)
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(c.dir+"/image.tar", tag, image); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"-a", c.socket, "-n", "k8s.io", "images", "import", "--snapshotter", "native"}
	if help, _ := exec.Command("ctr", "images", "import", "--help").Output(); bytes.Contains(help, []byte("--local")) {
		arguments = append(arguments, "--local") // containerd 2: its server unpacks for other snapshotters
	}
	out, err := exec.Command("ctr", append(arguments, c.dir+"/image.tar")...).CombinedOutput()
	if err != nil {
		t.Fatalf("import image: %v\n%s", err, out)
	}
}

func TestContainerd(t *testing.T) {
	c := startContainerd(t)
	client, err := cri.Dial(t.Context(), c.socket, cri.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Cleanup(func() { client.Close() })
	c.load(t)
	a := newAPI()
	cgroup := fmt.Sprintf("/planekit-test-%d", os.Getpid())
	t.Cleanup(func() { removeLeftovers(t, client, cgroup) })
	r := &rig{t: t, api: a, client: client, config: kubelet.Config{
		NodeName: "node-1", Root: c.dir + "/kubelet", LogRoot: c.dir + "/logs", CgroupRoot: cgroup + "/kubepods",
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
		PodCIDR:   "10.9.0.0/24",
		// A process that gets TERM before it has started up does not handle it.
		StopGrace: 2 * time.Second,
		Runtime:   client, Images: client,
		ImageGC: kubelet.ImageGC{High: 100}, // nothing brings the image of sandboxes back
		Pods:    a.pods, PodStatus: podAPI{a}, Nodes: nodeAPI{a}, Leases: leaseAPI{a}, Events: eventAPI{a},
		ConfigMaps: func(context.Context, string, string) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{Data: map[string]string{"a.conf": "alpha"}}, nil
		},
		// Most pods of this test are on the host's network. That of the others has no links.
		Network: c.network,
	}}
	r.config.LogMaxSize, r.config.MaxParallelPulls = 64<<10, 16
	r.config.RuntimeClasses, r.config.ShareRoot = runcClasses(), true
	storage := newClaimStore()
	r.config.Claims, r.config.PersistentVolumes = storage.claim, storage.volume
	r.config.Eviction = smallDisk(t, r.config.Root)
	r.start()
	r.api.create(actorPod("chatter", "chatter"))
	_ = t.Run("life", func(t *testing.T) { containerdLife(t, r) }) &&
		t.Run("crash", func(t *testing.T) { containerdCrash(t, r) }) &&
		t.Run("resize", func(t *testing.T) { containerdResize(t, r) }) &&
		t.Run("probes", func(t *testing.T) { containerdProbes(t, r) }) &&
		t.Run("subpaths", func(t *testing.T) { containerdSubPaths(t, r) }) &&
		t.Run("rights", func(t *testing.T) { containerdRights(t, r) }) &&
		t.Run("volumes", func(t *testing.T) { containerdVolumes(t, r, storage) }) &&
		t.Run("pods", func(t *testing.T) { containerdPods(t, r) }) &&
		t.Run("busy", func(t *testing.T) { containerdBusy(t, r) }) &&
		t.Run("static", func(t *testing.T) { containerdStatic(t, r) }) &&
		t.Run("standalone", func(t *testing.T) { containerdStandalone(t, r) }) &&
		t.Run("critest", func(t *testing.T) { containerdCritest(t, c, client, cgroup+"/critest") }) &&
		t.Run("cpus", func(t *testing.T) { containerdCPUs(t, r) }) &&
		t.Run("restarts", func(t *testing.T) { containerdRestarts(t, r) }) &&
		t.Run("latency", func(t *testing.T) { containerdLatency(t, r) }) &&
		t.Run("logs", func(t *testing.T) { containerdLogs(t, r) }) &&
		t.Run("registry", func(t *testing.T) { containerdRegistry(t, r) }) &&
		t.Run("eviction", func(t *testing.T) { containerdEviction(t, r) })
	r.stop()
	if err := r.kubelet.StopPods(t.Context()); err != nil {
		t.Error(err)
	}
	// It fails if anything of a pod is in use or mounted on the disk.
	if err := syscall.Unmount(r.config.Root, 0); err != nil {
		t.Errorf("unmount the kubelet's disk: %v", err)
	}
	nothingLeft(t, c.dir, cgroup)
}

func actorPod(name string, args ...string) *corev1.Pod {
	pod := webPod(name)
	pod.Spec.HostNetwork = true
	pod.Spec.Containers[0].Image = actorImage
	pod.Spec.Containers[0].ImagePullPolicy = corev1.PullIfNotPresent
	pod.Spec.Containers[0].Args = args
	return pod
}

func containerdLife(t *testing.T, r *rig) {
	pod := actorPod("tell", "tell")
	web := &pod.Spec.Containers[0]
	web.Env = []corev1.EnvVar{
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
		{Name: "NAME", Value: "the $(POD)"},
	}
	web.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	web.Resources.Requests = web.Resources.Limits
	web.VolumeMounts = []corev1.VolumeMount{{Name: "conf", MountPath: "/etc/conf"}, {Name: "scratch", MountPath: "/scratch"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "conf", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
	}
	created := r.api.create(pod)
	up := r.api.await(t, "tell", "running", running)
	if up.Status.QOSClass != corev1.PodQOSGuaranteed || up.Status.PodIP != "192.0.2.1" {
		t.Errorf("status: %+v", up.Status)
	}
	r.api.awaitEvent(t, "tell", "Pulled", `Container image "`+actorImage+`" already present on machine`)
	group := "/sys/fs/cgroup/memory" + r.config.CgroupRoot + "/pod" + string(created.UID)
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err == nil {
		for _, path := range []string{group, group + "/" + containerID(up)} {
			if text, err := os.ReadFile(path + "/memory.limit_in_bytes"); err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(64<<20) {
				t.Errorf("memory limit of %s: %s %v", path, text, err)
			}
		}
	}
	eventually(t, "the actor saw its volumes", func() bool {
		text, err := os.ReadFile(filepath.Join(r.config.Root, "pods", string(created.UID), "volumes/kubernetes.io~empty-dir/scratch/file"))
		return err == nil && string(text) == "alpha"
	})
	kill(t, r, created, up)
	again := r.api.await(t, "tell", "restarted", func(pod *corev1.Pod) bool {
		return running(pod) && pod.Status.ContainerStatuses[0].RestartCount == 1
	})
	last := again.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 137 || last.Message != "name=the tell conf=alpha" {
		t.Errorf("last termination: %+v", last)
	}
	r.api.delete("tell", 2)
	r.api.await(t, "tell", "gone", gone)
	nothingLeft(t, filepath.Join(r.config.Root, "pods", string(created.UID)), string(created.UID))
}

func containerID(pod *corev1.Pod) string {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

// kill kills the processes of a pod's only container.
func kill(t *testing.T, r *rig, created, up *corev1.Pod) {
	t.Helper()
	processes := pids(t, r, "pod"+string(created.UID)+"/"+containerID(up))
	if len(processes) != 1 {
		t.Fatalf("processes: %v", processes)
	}
	if err := syscall.Kill(processes[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func containerdCrash(t *testing.T, r *rig) {
	r.api.create(actorPod("crash", "fail"))
	pod := r.api.await(t, "crash", "backing off", func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		w := firstStatus(pod).State.Waiting
		return w != nil && w.Reason == "CrashLoopBackOff"
	})
	last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last.ExitCode != 7 || last.Reason != "Error" || last.Message != "it went wrong" {
		t.Errorf("last termination: %+v", last)
	}
	log, err := os.ReadFile(filepath.Join(r.config.LogRoot, "default_crash_"+string(pod.UID), "web", "1.log"))
	if err != nil || !strings.HasSuffix(string(log), " stdout F hello from the actor\n") {
		t.Errorf("log: %s %v", log, err)
	}
	r.api.delete("crash", 0)
	r.api.await(t, "crash", "gone", gone)
}

// containerdProbes runs probes and hooks that are commands, in a container with a directory of the
// host.
func containerdProbes(t *testing.T, r *rig) {
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	actor := func(name, file string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/actor", name, "/shared/" + file}}}
	}
	touch := func(file string) {
		if err := os.WriteFile(filepath.Join(shared, file), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	pod := actorPod("probed")
	pod.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: shared}}}}
	web := &pod.Spec.Containers[0]
	web.VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
	web.ReadinessProbe = &corev1.Probe{ProbeHandler: actor("exists", "ready"), PeriodSeconds: 1, FailureThreshold: 1}
	web.LivenessProbe = &corev1.Probe{ProbeHandler: actor("hang", "stuck"), PeriodSeconds: 1, FailureThreshold: 2, TimeoutSeconds: 1}
	web.Lifecycle = &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{Exec: actor("make", "started").Exec},
		PreStop:   &corev1.LifecycleHandler{Exec: actor("make", "stopping").Exec},
	}
	r.api.create(pod)
	r.api.awaitEvent(t, "probed", "Unhealthy", "Readiness probe failed: stat /shared/ready: no such file or directory\n")
	if _, err := os.Stat(filepath.Join(shared, "started")); err != nil {
		t.Errorf("the postStart hook has not run: %v", err)
	}
	touch("ready")
	r.api.await(t, "probed", "ready", running)
	touch("stuck")
	r.api.awaitEvent(t, "probed", "Unhealthy", `Liveness probe failed: command timed out: ["/actor" "hang" "/shared/stuck"] timed out after 1s`)
	r.api.awaitEvent(t, "probed", "Killing", "Container web failed liveness probe, will be restarted")
	if err := os.Remove(filepath.Join(shared, "stuck")); err != nil {
		t.Fatal(err)
	}
	again := r.api.await(t, "probed", "restarted", func(pod *corev1.Pod) bool {
		return running(pod) && pod.Status.ContainerStatuses[0].RestartCount == 1
	})
	if _, err := os.Stat(filepath.Join(shared, "stopping")); err != nil {
		t.Errorf("the preStop hook has not run: %v", err)
	}
	r.api.delete("probed", 5)
	r.api.await(t, "probed", "gone", gone)
	nothingLeft(t, string(again.UID))
}

func containerdRestarts(t *testing.T, r *rig) {
	created := r.api.create(actorPod("stay"))
	before := r.api.await(t, "stay", "running", running)
	processes := pids(t, r, string(created.UID))
	r.stop()
	r.start()
	// A second pod, so that the restarted kubelet has surely looked.
	r.api.create(actorPod("second"))
	r.api.await(t, "second", "running", running)
	after := r.api.await(t, "stay", "running", running)
	if containerID(before) != containerID(after) || after.Status.ContainerStatuses[0].RestartCount != 0 ||
		fmt.Sprint(processes) != fmt.Sprint(pids(t, r, string(created.UID))) {
		t.Errorf("a restart of the kubelet changed %+v into %+v", before.Status.ContainerStatuses, after.Status.ContainerStatuses)
	}

	// The sandbox's own process dies.
	for _, pid := range pids(t, r, string(created.UID)) {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
		if err == nil && !strings.Contains(string(line), containerID(before)) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	renewed := r.api.await(t, "stay", "running in a new sandbox", func(pod *corev1.Pod) bool {
		return running(pod) && containerID(pod) != containerID(before)
	})
	if renewed.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("status: %+v", renewed.Status.ContainerStatuses)
	}

	r.stop()
	if err := r.kubelet.StopPods(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.sandboxes()) + len(r.containers()); n != 0 {
		t.Errorf("%d things are left in the runtime", n)
	}
	nothingLeft(t, r.config.Root+"/", r.config.CgroupRoot)
	r.start()
	last := r.api.await(t, "stay", "running once more", func(pod *corev1.Pod) bool {
		return running(pod) && containerID(pod) != containerID(renewed)
	})
	if last.Status.ContainerStatuses[0].RestartCount != 2 {
		t.Errorf("status: %+v", last.Status.ContainerStatuses)
	}
	for _, name := range []string{"stay", "second"} {
		r.api.delete(name, 2)
		r.api.await(t, name, "gone", gone)
	}
}

func containerdLatency(t *testing.T, r *rig) {
	start := time.Now()
	for i := range 3 {
		r.api.create(actorPod(fmt.Sprintf("fast-%d", i)))
	}
	for i := range 3 {
		r.api.await(t, fmt.Sprintf("fast-%d", i), "running", running)
	}
	t.Logf("three pods ran and were ready after %v", time.Since(start))
	start = time.Now()
	for i := range 3 {
		r.api.delete(fmt.Sprintf("fast-%d", i), 2)
	}
	for i := range 3 {
		r.api.await(t, fmt.Sprintf("fast-%d", i), "gone", gone)
	}
	t.Logf("and were gone %v after their deletion", time.Since(start))
}

// nothingLeft fails if a mount, process or cgroup has any of the marks in its
// name.
func nothingLeft(t *testing.T, marks ...string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range marks {
		if bytes.Contains(mounts, []byte(mark)) {
			t.Errorf("a mount of %s is left", mark)
		}
		groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range groups {
			if text, err := os.ReadFile(path); err == nil && bytes.Contains(text, []byte(mark)) {
				t.Errorf("a process is left in a cgroup of %s: %s", mark, path)
			}
		}
		// Processes may end and cgroups go while this looks.
		filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.Contains(path, mark) {
				t.Errorf("cgroup %s is left", path)
			}
			return nil
		})
	}
}
