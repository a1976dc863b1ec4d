package volumes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func volumePod(list ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Volumes: list},
	}
}

func volume(name string, source corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: source}
}

// sources answers like a kubelet whose API server has one config map and one secret.
func sources() volumes.Sources {
	optional := func(name string, optional *bool) (bool, error) {
		if name == "missing" && optional != nil && *optional {
			return false, nil
		} else if name == "missing" {
			return false, errors.New("not found")
		}
		return true, nil
	}
	return volumes.Sources{
		ConfigMap: func(_ context.Context, _, name string, o *bool) (*corev1.ConfigMap, error) {
			if ok, err := optional(name, o); !ok {
				return nil, err
			}
			return &corev1.ConfigMap{Data: map[string]string{"a": "alpha"}, BinaryData: map[string][]byte{"b": []byte("beta")}}, nil
		},
		Secret: func(_ context.Context, _, name string, o *bool) (*corev1.Secret, error) {
			if ok, err := optional(name, o); !ok {
				return nil, err
			}
			return &corev1.Secret{Data: map[string][]byte{"password": []byte("sesame")}}, nil
		},
		Token: func(_ context.Context, pod *corev1.Pod, volume string, p *corev1.ServiceAccountTokenProjection) (string, error) {
			return pod.Name + " " + volume + " " + p.Audience, nil
		},
		Field:         func(pod *corev1.Pod, path string) (string, error) { return path + " of " + pod.Name, nil },
		ResourceField: func(_ *corev1.Pod, r *corev1.ResourceFieldSelector) (string, error) { return r.Resource, nil },
	}
}

// contents returns the files that a container sees below a directory, except hidden ones.
func contents(t *testing.T, directory string) string {
	t.Helper()
	var all []string
	paths, err := filepath.Glob(filepath.Join(directory, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasPrefix(filepath.Base(path), "..") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, filepath.Base(path)+"="+string(data))
	}
	return strings.Join(all, " ")
}

func TestBuiltin(t *testing.T) {
	set, err := volumes.NewSet(volumes.Builtin(sources())...)
	if err != nil {
		t.Fatal(err)
	}
	yes, file := true, filepath.Join(t.TempDir(), "file")
	missing := corev1.LocalObjectReference{Name: "missing"}
	create := corev1.HostPathFileOrCreate
	for _, test := range []struct {
		name   string
		source corev1.VolumeSource
		// at is the directory below that of the pod; empty means elsewhere.
		at, want, err string
	}{
		{"empty", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, "kubernetes.io~empty-dir/v", "", ""},
		{"pages", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "HugePages"}}, "", "", `medium "HugePages" is not supported`},
		{"host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: file, Type: &create}}, "", "", ""},
		{"config map", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, "kubernetes.io~configmap/v", "a=alpha b=beta", ""},
		{"items", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: []corev1.KeyToPath{{Key: "a", Path: "x"}}}}, "kubernetes.io~configmap/v", "x=alpha", ""},
		{"no item", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: []corev1.KeyToPath{{Key: "c", Path: "x"}}}}, "", "", "non-existent config key: c"},
		{"outside", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{Items: []corev1.KeyToPath{{Key: "a", Path: "../x"}}}}, "", "", "invalid path: must not contain '..': ../x"},
		{"missing", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: missing}}, "", "", `failed for volume "v" : not found`},
		{"secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, "kubernetes.io~secret/v", "password=sesame", ""},
		{"optional", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "missing", Optional: &yes}}, "kubernetes.io~secret/v", "", ""},
		{"downward", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "f", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
			{Path: "r", ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}},
		}}}, "kubernetes.io~downward-api/v", "f=metadata.name of web r=limits.cpu", ""},
		{"projected", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{}}, {Secret: &corev1.SecretProjection{}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", Audience: "vault"}},
		}}}, "kubernetes.io~projected/v", "a=alpha b=beta password=sesame token=web v vault", ""},
		{"certificate", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{PodCertificate: &corev1.PodCertificateProjection{}}}}}, "", "", "unsupported source of a projected volume"},
		{"other", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}, "", "", "this kind of volume is not supported"},
	} {
		directory := t.TempDir()
		paths, err := set.SetUp(t.Context(), volumePod(volume("v", test.source)), directory)
		if err != nil || test.err != "" {
			if test.err == "" || err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.name, err, test.err)
			}
			continue
		}
		want := filepath.Join(directory, "volumes", test.at)
		if test.at == "" {
			want = file
		}
		if paths["v"] != want {
			t.Errorf("%s is at %s, want %s", test.name, paths["v"], want)
		} else if got := contents(t, want); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if err := set.TearDown(t.Context(), directory); err != nil {
			t.Errorf("%s: TearDown: %v", test.name, err)
		}
		if err := os.RemoveAll(directory); err != nil {
			t.Errorf("%s: something is mounted still: %v", test.name, err)
		}
	}
}

// ledger is a plugin that writes to a ledger elsewhere what it has set up.
type ledger struct {
	entries map[string]bool
	fail    error
}

func (*ledger) Name() string                   { return "example.com/ledger" }
func (*ledger) Supports(v *corev1.Volume) bool { return v.NFS != nil || v.EmptyDir != nil }

func (l *ledger) SetUp(_ context.Context, v *volumes.Volume) (string, error) {
	l.entries[v.Directory] = true
	return v.Directory, os.WriteFile(filepath.Join(v.Directory, "entry"), []byte(v.Spec.Name), 0o600)
}

func (l *ledger) TearDown(_ context.Context, directory string) error {
	if l.fail == nil {
		delete(l.entries, directory)
	}
	return l.fail
}

// TestTearDownNeedsNoPod: a set that knows nothing but the disk tears down what another has set up,
// also the volumes of plugins that are asked before the built-in ones.
func TestTearDownNeedsNoPod(t *testing.T) {
	l := &ledger{entries: map[string]bool{}}
	plugins := slices.Concat([]volumes.Plugin{l}, volumes.Builtin(sources()))
	before, err := volumes.NewSet(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	memory := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	paths, err := before.SetUp(t.Context(), volumePod(
		volume("a", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}),
		volume("b", corev1.VolumeSource{EmptyDir: memory}),
		volume("c", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}})), directory)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.entries) != 2 || paths["b"] != filepath.Join(directory, "volumes", "example.com~ledger", "b") {
		t.Errorf("set up %v at %v", l.entries, paths)
	}
	after, err := volumes.NewSet(plugins...)
	if err != nil {
		t.Fatal(err)
	}
	l.fail = errors.New("ledger is closed")
	if err := after.TearDown(t.Context(), directory); err == nil || !strings.Contains(err.Error(), "tear down volume a of example.com/ledger: ledger is closed") {
		t.Errorf("error %v", err)
	}
	l.fail = nil
	for range 2 {
		if err := after.TearDown(t.Context(), directory); err != nil {
			t.Error(err)
		}
	}
	if len(l.entries) != 0 {
		t.Errorf("left in the ledger: %v", l.entries)
	}
	if err := errors.Join(after.TearDown(t.Context(), filepath.Join(directory, "gone")), os.RemoveAll(directory)); err != nil {
		t.Error(err)
	}
}

// misnamed is a plugin with another name.
type misnamed struct {
	*ledger
	name string
}

func (m misnamed) Name() string { return m.name }

func TestNames(t *testing.T) {
	for _, names := range [][]string{{""}, {".."}, {"a", "a"}, {"a/b", "a~b"}} {
		var plugins []volumes.Plugin
		for _, name := range names {
			plugins = append(plugins, misnamed{nil, name})
		}
		if _, err := volumes.NewSet(plugins...); err == nil {
			t.Errorf("%q were accepted", names)
		}
	}
}
