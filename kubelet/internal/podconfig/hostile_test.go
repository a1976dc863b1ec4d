package podconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestHostileVariables: pods of a size that an API server takes cost bounded memory and time, and are
// refused by the names of their fields.
func TestHostileVariables(t *testing.T) {
	b := newBuilder(t)
	large := strings.Repeat("x", 1<<20)
	b.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		return &corev1.Secret{Data: map[string][]byte{"k": []byte(large)}}, nil
	}
	doubling := []corev1.EnvVar{{Name: "V0", Value: large[:100]}}
	for i := range 60 {
		doubling = append(doubling, corev1.EnvVar{Name: fmt.Sprintf("V%d", i+1), Value: fmt.Sprintf("$(V%d)$(V%d)", i, i)})
	}
	many := corev1.Container{}
	for i := range 1000 {
		many.EnvFrom = append(many.EnvFrom, corev1.EnvFromSource{
			Prefix: fmt.Sprint("P", i), SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}},
		})
	}
	megabyte := []corev1.EnvVar{{Name: "A", Value: large}}
	var repeated []string
	for range 1000 {
		repeated = append(repeated, "$(A)")
	}
	for name, test := range map[string]struct {
		c      corev1.Container
		refuse bool
	}{
		"doubling":          {corev1.Container{Env: doubling}, true},
		"one secret often":  {many, true},
		"arguments":         {corev1.Container{Env: megabyte, Args: repeated}, true},
		"command":           {corev1.Container{Env: megabyte, Command: []string{strings.Repeat("$(A)", 1000)}}, true},
		"in its own value":  {corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "$(A)$(A)"}}}, false},
		"never closed":      {corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("$(", 750_000)}}}, false},
		"as much as can be": {corev1.Container{Env: megabyte, Args: repeated[:14]}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.UID, pod.Namespace, pod.Name = "uid", "ns", "hostile"
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := time.Now()
			env, err := b.environment(t.Context(), pod, &test.c, Volumes{})
			if err == nil {
				expandAll(test.c.Command, env.lookup, &env.left)
				expandAll(test.c.Args, env.lookup, &env.left)
				err = env.left.err()
			}
			runtime.ReadMemStats(&after)
			if refused := errors.Is(err, errTooMuchExpanded); refused != test.refuse || !refused && err != nil {
				t.Errorf("the error is %v", err)
			}
			// Without a bound, these need from gigabytes to more than any machine has, or minutes.
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
				t.Errorf("it took %d MiB", used>>20)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestHostileContainer: the refusal comes from the configuration of the container.
func TestHostileContainer(t *testing.T) {
	b := newBuilder(t)
	pod := &corev1.Pod{}
	pod.UID, pod.Namespace, pod.Name = "uid", "ns", "hostile"
	c := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<20)}}, Args: strings.Split(strings.Repeat("$(A) ", 40), " ")}
	pod.Spec.Containers = []corev1.Container{*c}
	if err := os.MkdirAll(b.PodDirectory(pod.UID), 0o750); err != nil {
		t.Fatal(err)
	}
	_, err := b.Container(t.Context(), pod, c, 0, &runtimeapi.Image{Id: "i"}, Volumes{}, "")
	if !errors.Is(err, errTooMuchExpanded) {
		t.Errorf("the error is %v", err)
	}
}
