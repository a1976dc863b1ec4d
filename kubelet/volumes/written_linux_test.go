package volumes_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
)

// access returns the group and the mode of everything in a volume, with the names of versions shortened.
func access(t *testing.T, volume string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(volume, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(volume, path)
		if first, rest, _ := strings.Cut(name, "/"); strings.HasPrefix(first, "..version_") {
			name = filepath.Join("version", rest)
		}
		all[name] = ownership(t, path)
		if d.Type()&fs.ModeSymlink != 0 {
			all[name] = strings.Fields(all[name])[0] // the mode of a link says nothing
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWrittenGroup: the files that the kubelet writes belong to the group of the pod, which can read
// them, and directories pass the group on, as in Kubernetes.
func TestWrittenGroup(t *testing.T) {
	needsRoot(t)
	items := []corev1.KeyToPath{{Key: "a", Path: "d/f"}, {Key: "b", Path: "g", Mode: new(int32(0o400))}}
	field := func(path string, mode *int32) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: path, Mode: mode, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	}
	secret := []corev1.KeyToPath{{Key: "password", Path: "d/f"}, {Key: "password", Path: "g", Mode: new(int32(0o400))}}
	for name, source := range map[string]corev1.VolumeSource{
		"config map": {ConfigMap: &corev1.ConfigMapVolumeSource{Items: items}},
		"secret":     {Secret: &corev1.SecretVolumeSource{Items: secret}},
		"downward": {DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{field("d/f", nil), field("g", new(int32(0o400)))},
		}},
		"projected": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{Items: items}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			top := "3777"
			if source.ConfigMap != nil {
				top = "2777" // on the disk
			}
			set, err := volumes.NewSet(volumes.Builtin(sources())...)
			if err != nil {
				t.Fatal(err)
			}
			pod, directory := volumePod(volume("v", source)), t.TempDir()
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(77))}
			for range 2 { // a refresh changes nothing
				paths, err := set.SetUp(t.Context(), pod, directory)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]string{
					".": "77 " + top, "..data": "77", "d": "77", "g": "77",
					"version": "77 2755", "version/d": "77 2755", "version/d/f": "77 644", "version/g": "77 440",
				}
				if got := access(t, paths["v"]); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("got %v\nwant %v", got, want)
				}
			}
			if err := set.TearDown(t.Context(), directory); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTokenOwner: a token belongs to the user that all containers run as, and to the group of the pod.
func TestTokenOwner(t *testing.T) {
	needsRoot(t)
	as := func(user int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: &user} }
	for name, test := range map[string]struct {
		pod        *corev1.PodSecurityContext
		containers []*corev1.SecurityContext
		want       string // user, group and mode
	}{
		"nobody":     {nil, []*corev1.SecurityContext{nil}, "0 0 604"},
		"one user":   {nil, []*corev1.SecurityContext{as(7), as(7)}, "7 0 600"},
		"two users":  {nil, []*corev1.SecurityContext{as(7), as(8)}, "0 0 604"},
		"of the pod": {&corev1.PodSecurityContext{RunAsUser: new(int64(9))}, []*corev1.SecurityContext{nil, as(9)}, "9 0 600"},
		"overridden": {&corev1.PodSecurityContext{RunAsUser: new(int64(9))}, []*corev1.SecurityContext{nil, as(7)}, "0 0 604"},
		"group":      {&corev1.PodSecurityContext{FSGroup: new(int64(77))}, []*corev1.SecurityContext{nil}, "0 77 640"},
		"both":       {&corev1.PodSecurityContext{FSGroup: new(int64(77))}, []*corev1.SecurityContext{as(7)}, "7 77 640"},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := volumes.NewSet(volumes.Builtin(sources())...)
			if err != nil {
				t.Fatal(err)
			}
			pod := volumePod(volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: new(int32(0o604)),
				Sources:     []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}},
			}}))
			pod.Spec.SecurityContext = test.pod
			for _, c := range test.containers {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{SecurityContext: c})
			}
			directory := t.TempDir()
			paths, err := set.SetUp(t.Context(), pod, directory)
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(paths["v"], "token"))
			if err != nil {
				t.Fatal(err)
			}
			s := info.Sys().(*syscall.Stat_t)
			if got := fmt.Sprintf("%d %d %o", s.Uid, s.Gid, s.Mode&0o7777); got != test.want {
				t.Errorf("the token has %s, want %s", got, test.want)
			}
			if err := set.TearDown(t.Context(), directory); err != nil {
				t.Error(err)
			}
		})
	}
}
