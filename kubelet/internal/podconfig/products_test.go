package podconfig

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cost runs a step and fails the test if it takes more than a tenth of what the products below cost
// without a bound: from some seconds to minutes, or gigabytes.
func cost(t *testing.T, step func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	step()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
		t.Errorf("allocated %d MiB, want at most 128", used>>20)
	}
	// It takes 0.1 s. The race detector and the tests of other packages may take more.
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v, want at most 20s", took)
	}
}

func hostilePod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid", Namespace: "ns", Name: "hostile"}}
}

// TestVariablesEndAtTheirBound: a container that has too many variables costs no more than one that has
// just as many as it may.
func TestVariablesEndAtTheirBound(t *testing.T) {
	b := newBuilder(t)
	large := []byte(strings.Repeat("x", 1<<20))
	keys := map[string][]byte{}
	for i := range 20_000 {
		keys[fmt.Sprint("K", i)] = nil
	}
	b.Secrets = func(_ context.Context, _, name string) (*corev1.Secret, error) {
		if name == "keys" {
			return &corev1.Secret{Data: keys}, nil
		}
		return &corev1.Secret{Data: map[string][]byte{"k": large}}, nil
	}
	var ports []corev1.ServicePort
	for i := range 250 {
		ports = append(ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)})
	}
	b.Services = func(namespace string) iter.Seq[*corev1.Service] {
		return func(yield func(*corev1.Service) bool) {
			for i := range 2000 {
				service := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: ports}}
				if service.Name = fmt.Sprint("s", i); namespace == "many" && !yield(service) {
					return
				}
			}
		}
	}
	var secrets, annotations []corev1.EnvVar
	for i := range 10_000 {
		secrets = append(secrets, corev1.EnvVar{Name: fmt.Sprint("V", i), ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"},
		}})
		annotations = append(annotations, corev1.EnvVar{Name: fmt.Sprint("V", i), ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"},
		}})
	}
	for name, test := range map[string]struct {
		namespace string
		c         corev1.Container
	}{
		"a secret often":         {"ns", corev1.Container{Env: secrets}},
		"the annotations often":  {"ns", corev1.Container{Env: annotations}},
		"services by containers": {"many", corev1.Container{}},
		"prefix by keys": {"ns", corev1.Container{EnvFrom: []corev1.EnvFromSource{{
			Prefix: string(large), SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := hostilePod()
			pod.Namespace, pod.Annotations = test.namespace, map[string]string{"a": strings.Repeat("x", 256<<10)}
			cost(t, func() {
				if _, err := b.environment(t.Context(), pod, &test.c, Volumes{}); !errors.Is(err, errTooMuchExpanded) {
					t.Errorf("environment() = %v, want %v", err, errTooMuchExpanded)
				}
			})
		})
	}
}

// TestMissingVariables: the error about the variables that a subPathExpr misses stays short.
func TestMissingVariables(t *testing.T) {
	cost(t, func() {
		_, err := subPath(&corev1.VolumeMount{SubPathExpr: strings.Repeat("$(A)", 250_000)}, &variables{left: maxExpanded})
		if err == nil {
			t.Fatal("subPath() = nil, want an error")
		}
		if n := len(err.Error()); n > 4096 {
			t.Errorf("subPath() returns an error of %d bytes, want at most 4096", n)
		}
	})
}

// TestResolverOptions: many options of a resolver take no more than linear time. A later option replaces
// an earlier one of its name.
func TestResolverOptions(t *testing.T) {
	b := newBuilder(t)
	pod := hostilePod()
	pod.Spec.DNSPolicy, pod.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{}
	for i := range 50_000 {
		pod.Spec.DNSConfig.Options = append(pod.Spec.DNSConfig.Options, corev1.PodDNSConfigOption{Name: fmt.Sprint("o", i/2), Value: new(fmt.Sprint(i % 2))})
	}
	cost(t, func() {
		dns, err := b.dnsConfig(pod)
		if err != nil || len(dns.Options) != 25_000 || slices.Contains(dns.Options, "o7:0") || !slices.Contains(dns.Options, "o7:1") {
			t.Errorf("dnsConfig() has %d options, %v; want 25000, each with the last value", len(dns.GetOptions()), err)
		}
	})
}

// TestLargeEnvFile: a file with variables is read once for a container, in linear time, and files count
// as the variables do.
func TestLargeEnvFile(t *testing.T) {
	directory := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func(file string, i int) corev1.EnvVar {
		return corev1.EnvVar{Name: fmt.Sprint("V", i), ValueFrom: &corev1.EnvVarSource{
			FileKeyRef: &corev1.FileKeySelector{VolumeName: "files", Path: file, Key: "LAST"},
		}}
	}
	write("keys", strings.Repeat("A='1'\n", envFileLimit/6-2)+"LAST='1'\n")
	lines := "A='" + strings.Repeat("\n", envFileLimit-20) + "'\nLAST='1'\n"
	var one, many []corev1.EnvVar
	for i := range 2000 {
		one = append(one, key("keys", i))
	}
	for i := range maxExpanded/envFileLimit + 1 {
		name := fmt.Sprint("lines", i)
		write(name, "A='"+strings.Repeat(strings.Repeat("x", 999)+"\n", envFileLimit/1000-1)+"'\nLAST='1'\n")
		many = append(many, key(name, i))
	}
	write("lines0", lines)
	volumes := Volumes{Paths: map[string]string{"files": directory}}
	for name, test := range map[string]struct {
		env  []corev1.EnvVar
		want error
	}{"one file often": {one, nil}, "many lines": {many[:1], nil}, "many files": {many, errTooMuchExpanded}} {
		t.Run(name, func(t *testing.T) {
			cost(t, func() {
				v, err := newBuilder(t).environment(t.Context(), hostilePod(), &corev1.Container{Env: test.env}, volumes)
				if !errors.Is(err, test.want) || err == nil && (len(v.names) != len(test.env) || v.values["V0"] != "1") {
					t.Errorf("environment() = %v, want %v", err, test.want)
				}
			})
		})
	}
}

// TestMountsByVolumes: many mounts of many volumes take no more than linear time.
func TestMountsByVolumes(t *testing.T) {
	b := newBuilder(t)
	pod := hostilePod()
	volumes := Volumes{Paths: map[string]string{}}
	c := corev1.Container{Name: "c"}
	for i := range 10_000 {
		name := fmt.Sprint("v", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		volumes.Paths[name] = "/" + name
	}
	if err := os.MkdirAll(b.PodDirectory(pod.UID), 0o750); err != nil {
		t.Fatal(err)
	}
	cost(t, func() {
		if list, err := b.mounts(pod, &c, 0, &variables{left: maxExpanded}, volumes); err != nil || len(list) < 10_000 {
			t.Errorf("mounts() = %d mounts, %v; want 10000", len(list), err)
		}
	})
}
