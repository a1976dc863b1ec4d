package kubelet_test

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// containerdVolumes checks in real containers what volumes are.
func containerdVolumes(t *testing.T, r *rig, storage *claimStore) {
	t.Run("together", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *rig){
			"hostPath":    containerdHostPaths,
			"refused":     containerdHostPathsRefused,
			"memory":      containerdMemory,
			"read-only":   containerdReadOnly,
			"propagation": containerdPropagation,
			"group":       containerdGroup,
			"projected":   containerdProjected,
			"image":       containerdImageVolume,
			"race":        containerdSubPathRace,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, r)
			})
		}
		t.Run("claims", func(t *testing.T) {
			t.Parallel()
			containerdClaims(t, r, storage)
		})
	})
}

// hostFiles makes a file of each type in a directory of the host.
func hostFiles(t *testing.T) (directory string, devices bool) {
	t.Helper()
	directory, err := os.MkdirTemp("", "kv") // a socket has a short path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(directory) })
	at := func(name string) string { return filepath.Join(directory, name) }
	if err := os.Mkdir(at("dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("file"), []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	null, loop := syscall.Mknod(at("null"), syscall.S_IFCHR|0o666, 1<<8|3), syscall.Mknod(at("loop"), syscall.S_IFBLK|0o660, 7<<8)
	if null != nil || loop != nil {
		t.Logf("devices cannot be made here: %v %v", null, loop)
	}
	return directory, null == nil && loop == nil
}

// containerdHostPaths mounts files of all types of the host.
func containerdHostPaths(t *testing.T, r *rig) {
	directory, devices := hostFiles(t)
	pod := actorPod("paths")
	want := map[string]fs.FileMode{"dir": fs.ModeDir, "newdir": fs.ModeDir, "any/deep": fs.ModeDir, "file": 0, "newfile": 0, "socket": fs.ModeSocket}
	kinds := map[string]corev1.HostPathType{
		"dir": corev1.HostPathDirectory, "newdir": corev1.HostPathDirectoryOrCreate, "any/deep": corev1.HostPathUnset,
		"file": corev1.HostPathFile, "newfile": corev1.HostPathFileOrCreate, "socket": corev1.HostPathSocket,
		"null": corev1.HostPathCharDev, "loop": corev1.HostPathBlockDev,
	}
	if devices {
		want["null"], want["loop"] = fs.ModeDevice|fs.ModeCharDevice, fs.ModeDevice
	}
	for name := range want {
		mountVolume(pod, strings.ReplaceAll(name, "/", "-"), hostPathSource(filepath.Join(directory, name), kinds[name]))
	}
	r.api.create(pod)
	in := r.inside(t, r.api.await(t, "paths", "running", running), "web")
	for name, mode := range want {
		here := in.stat(t, "/"+strings.ReplaceAll(name, "/", "-"))
		there, err := os.Stat(filepath.Join(directory, name))
		if err != nil || !os.SameFile(here, there) || here.Mode().Type() != mode {
			t.Errorf("%s is %v in the container, %v", name, here.Mode(), err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"newdir": 0o755, "newfile": 0o644} {
		if info, err := os.Stat(filepath.Join(directory, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s was made with the mode %v: %v", name, info.Mode(), err)
		}
	}
	r.does(t, in, "dial", "/socket")
	if devices {
		r.does(t, in, "make", "/null")
	}
	r.does(t, in, "make", "/any-deep/made")
	if got := r.does(t, in, "read", "/file"); got != "of the host" {
		t.Errorf("the file is %q", got)
	}
	r.end(t, "paths")
	// The host keeps its files.
	if _, err := os.Stat(filepath.Join(directory, "any/deep/made")); err != nil {
		t.Error(err)
	}
}

// containerdHostPathsRefused: pods whose paths are of another type do not start, and say why.
func containerdHostPathsRefused(t *testing.T, r *rig) {
	directory, devices := hostFiles(t)
	var names []string
	for _, test := range []struct {
		kind       corev1.HostPathType
		path, want string
	}{
		{corev1.HostPathDirectory, "missing", "directory"},
		{corev1.HostPathDirectory, "file", "directory"},
		{corev1.HostPathDirectoryOrCreate, "file", "directory"},
		{corev1.HostPathFile, "missing", "file"},
		{corev1.HostPathFile, "dir", "file"},
		{corev1.HostPathFileOrCreate, "dir", "file"},
		{corev1.HostPathSocket, "file", "socket file"},
		{corev1.HostPathSocket, "missing", "socket file"},
		{corev1.HostPathCharDev, "loop", "character device"},
		{corev1.HostPathBlockDev, "null", "block device"},
		{corev1.HostPathBlockDev, "file", "block device"},
	} {
		if !devices && (test.path == "loop" || test.path == "null") {
			continue
		}
		name := fmt.Sprintf("refused-%d", len(names))
		names = append(names, name)
		pod := actorPod(name)
		path := filepath.Join(directory, test.path)
		mountVolume(pod, "v", hostPathSource(path, test.kind))
		r.api.create(pod)
		r.api.awaitEvent(t, name, "FailedMount", `MountVolume.SetUp failed for volume "v" : hostPath type check failed: `+path+" is not a "+test.want)
	}
	for _, name := range names {
		r.api.await(t, name, "waiting", waits("ContainerCreating", ""))
	}
	r.end(t, names...)
	if _, err := os.Stat(filepath.Join(directory, "missing")); err == nil {
		t.Error("a path that must exist was made")
	}
}

// containerdMemory fills a volume in memory: the kernel bounds it, and its container goes on.
func containerdMemory(t *testing.T, r *rig) {
	pod := actorPod("memory", "fill", "/mem/large")
	limit := resource.MustParse("2Mi")
	mountVolume(pod, "mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &limit}})
	created := r.api.create(pod)
	up := r.api.await(t, "memory", "running", running)
	log := filepath.Join(r.config.LogRoot, "default_memory_"+string(created.UID), "web", "0.log")
	eventually(t, "the volume is full", func() bool {
		text, err := os.ReadFile(log)
		return err == nil && strings.Contains(string(text), "write /mem/large: no space left on device\n")
	})
	in := r.inside(t, up, "web")
	if size := in.stat(t, "/mem/large").Size(); size != limit.Value() {
		t.Errorf("the file has %d bytes, want %d", size, limit.Value())
	}
	if mode := in.stat(t, "/mem").Mode(); mode != fs.ModeDir|fs.ModeSticky|0o777 {
		t.Errorf("the volume has the mode %v", mode)
	}
	r.end(t, "memory")
	nothingLeft(t, string(created.UID))
}

// containerdReadOnly mounts a directory, with another disk in it, for reading.
func containerdReadOnly(t *testing.T, r *rig) {
	directory := t.TempDir()
	mountDisk(t, filepath.Join(directory, "disk"))
	pod := actorPod("reader")
	mountVolume(pod, "plain", hostPathSource(directory, ""))
	mountVolume(pod, "deep", hostPathSource(directory, ""))
	possible, enabled := corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled
	mounts := pod.Spec.Containers[0].VolumeMounts
	mounts[0].ReadOnly, mounts[1].ReadOnly, mounts[1].RecursiveReadOnly = true, true, &possible
	created := r.api.create(pod)
	up := r.api.await(t, "reader", "running", running)
	in := r.inside(t, up, "web")
	const refused = "read-only file system"
	r.refuses(t, in, "make", "/plain/file", refused)
	r.refuses(t, in, "make", "/deep/file", refused)
	r.does(t, in, "make", "/plain/disk/file")
	status := up.Status.ContainerStatuses[0].VolumeMounts
	i := slices.IndexFunc(status, func(m corev1.VolumeMountStatus) bool { return m.Name == "deep" })
	if i < 0 || status[i].RecursiveReadOnly == nil {
		t.Fatalf("status of mounts: %+v", status)
	}
	t.Logf("recursive read-only: %s", *status[i].RecursiveReadOnly)
	strict := actorPod("strict")
	mountVolume(strict, "deep", hostPathSource(directory, ""))
	m := &strict.Spec.Containers[0].VolumeMounts[0]
	m.ReadOnly, m.RecursiveReadOnly = true, &enabled
	r.api.create(strict)
	if *status[i].RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled {
		r.refuses(t, in, "make", "/deep/disk/file", refused)
		r.refuses(t, r.inside(t, r.api.await(t, "strict", "running", running), "web"), "make", "/deep/disk/file", refused)
	} else {
		r.does(t, in, "make", "/deep/disk/file")
		r.api.await(t, "strict", "waiting", waits("CreateContainerConfigError",
			`failed to resolve recursive read-only mode: volume "deep" requested recursive read-only mode, but it is not supported by the runtime`))
	}
	r.end(t, "reader", "strict")
	nothingLeft(t, string(created.UID))
}

// mountDisk mounts a small disk on a directory, which it makes, until the test ends.
func mountDisk(t *testing.T, directory string) {
	t.Helper()
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", directory, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(directory, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", directory, err)
		}
	})
}

// sharedDirectory returns a directory whose mounts are shared with the containers that mount it.
func sharedDirectory(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	if err := syscall.Mount(directory, directory, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(directory, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", directory, err)
		}
	})
	if err := syscall.Mount("", directory, "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	return directory
}

// containerdPropagation mounts disks on the host and in containers: each sees those of the other that
// its mount propagates.
func containerdPropagation(t *testing.T, r *rig) {
	directory := sharedDirectory(t)
	pods := map[string]corev1.MountPropagationMode{
		"alone": corev1.MountPropagationNone, "follows": corev1.MountPropagationHostToContainer, "both": corev1.MountPropagationBidirectional,
	}
	propagates := func(name, directory string, mode corev1.MountPropagationMode) *corev1.Pod {
		pod := actorPod(name)
		mountVolume(pod, "v", hostPathSource(directory, ""))
		pod.Spec.Containers[0].VolumeMounts[0].MountPropagation = &mode
		pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(mode == corev1.MountPropagationBidirectional)}
		return pod
	}
	for name, mode := range pods {
		r.api.create(propagates(name, directory, mode))
	}
	in := map[string]container{}
	for name := range pods {
		in[name] = r.inside(t, r.api.await(t, name, "running", running), "web")
	}
	mountDisk(t, filepath.Join(directory, "host"))
	if err := os.WriteFile(filepath.Join(directory, "host/inside"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.does(t, in["both"], "mount", "/v/guest")
	if _, err := os.Stat(filepath.Join(directory, "guest/inside")); err != nil {
		t.Errorf("the host does not see the container's disk: %v", err)
	}
	for _, disk := range []string{"/v/host/inside", "/v/guest/inside"} {
		r.does(t, in["both"], "exists", disk)
		r.does(t, in["follows"], "exists", disk)
		r.does(t, in["alone"], "lacks", disk)
	}
	// So does a volume below the kubelet's own directory, and what a container has mounted in it goes with
	// the pod.
	scratch := propagates("scratch-both", directory, corev1.MountPropagationBidirectional)
	scratch.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	r.api.create(scratch)
	up := r.api.await(t, "scratch-both", "running", running)
	r.does(t, r.inside(t, up, "web"), "mount", "/v/guest")
	if _, err := os.Stat(filepath.Join(r.config.Root, "pods", string(up.UID), "volumes/kubernetes.io~empty-dir/v/guest/inside")); err != nil {
		t.Errorf("the host does not see the container's disk: %v", err)
	}
	// A mount that is not shared propagates nothing.
	private := t.TempDir()
	if err := syscall.Mount(private, private, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer syscall.Unmount(private, syscall.MNT_DETACH)
	if err := syscall.Mount("", private, "", syscall.MS_PRIVATE|syscall.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	r.api.create(propagates("private-both", private, corev1.MountPropagationBidirectional))
	r.api.create(propagates("private-follows", private, corev1.MountPropagationHostToContainer))
	r.api.await(t, "private-both", "refused", waits("CreateContainerError", fmt.Sprintf("path %q is mounted on %q but it is not a shared mount", private, private)))
	r.api.await(t, "private-follows", "refused", waits("CreateContainerError", fmt.Sprintf("path %q is mounted on %q but it is not a shared or slave mount", private, private)))
	r.end(t, "alone", "follows", "both", "scratch-both", "private-both", "private-follows")
	if err := syscall.Unmount(filepath.Join(directory, "guest"), 0); err != nil {
		t.Errorf("the container's disk is not the host's: %v", err)
	}
}
