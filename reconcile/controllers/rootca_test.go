package controllers_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const authority = "-----BEGIN CERTIFICATE-----\n..."

func launchRootCA(t *testing.T, c *cluster, configMaps *collection[*corev1.ConfigMap], l lag) *process {
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*account.RootCA](t)(account.NewRootCA(account.RootCAConfig{
			Namespaces: follow(ctx, c.namespaces, l), ConfigMaps: follow(ctx, configMaps, l), Writer: configMaps, CA: []byte(authority),
		}))}
	})
}

func TestRootCA(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		configMaps := newCollection(c.api, "ConfigMap", func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		p := launchRootCA(t, c, configMaps, lag{most: time.Second})
		for _, name := range []string{"a", "b", "ending"} {
			must[*corev1.Namespace](t)(c.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		}
		want := func(step string, keys ...string) {
			t.Helper()
			settle()
			got := configMaps.list()
			if len(got) != len(keys) {
				t.Fatalf("%s: %d config maps, want %v", step, len(got), keys)
			}
			for i, m := range got {
				if keyOf(m) != keys[i] || len(m.Data) != 1 || m.Data["ca.crt"] != authority || m.Annotations["kubernetes.io/description"] == "" {
					t.Errorf("%s: %s %v, want %s", step, keyOf(m), m.Data, keys[i])
				}
			}
		}
		want("new namespaces", "a/kube-root-ca.crt", "b/kube-root-ca.crt", "ending/kube-root-ca.crt")
		if err := configMaps.Delete(t.Context(), "a", "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		configMaps.alter(t, "b/kube-root-ca.crt", func(m *corev1.ConfigMap) { m.Data = map[string]string{"ca.crt": "another", "x": "y"} })
		configMaps.alter(t, "ending/kube-root-ca.crt", func(m *corev1.ConfigMap) { m.Annotations = map[string]string{"mine": "yes"} })
		want("deleted and changed", "a/kube-root-ca.crt", "b/kube-root-ca.crt", "ending/kube-root-ca.crt")
		writes := len(c.wrote())
		configMaps.alter(t, "a/kube-root-ca.crt", func(m *corev1.ConfigMap) { m.Labels = map[string]string{"mine": "yes"} })
		want("labelled", "a/kube-root-ca.crt", "b/kube-root-ca.crt", "ending/kube-root-ca.crt")
		if got := c.wrote()[writes:]; len(got) > 1 {
			t.Errorf("wrote %v for a label", got)
		}
		c.namespaces.alter(t, "ending", func(n *corev1.Namespace) { n.Status.Phase = corev1.NamespaceTerminating })
		settle()
		if err := configMaps.Delete(t.Context(), "ending", "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		want("an ending namespace stays empty", "a/kube-root-ca.crt", "b/kube-root-ca.crt")
		p.stop(t)
	})
}

// Whatever fails, before or after it took effect, and however late the local
// copies are: in the end every namespace has the map.
func TestRootCAFaults(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			c := newCluster()
			configMaps := newCollection(c.api, "ConfigMap", func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
			for _, name := range []string{"a", "b", "c"} {
				must[*corev1.Namespace](t)(c.namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
			}
			must[*corev1.ConfigMap](t)(configMaps.Create(t.Context(), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "old"}}))
			failures := 6
			c.fault = func(string, string) (bool, error) {
				if failures--; failures >= 0 && random.IntN(2) == 0 {
					return random.IntN(2) == 0, errors.New("connection lost")
				}
				return true, nil
			}
			p := launchRootCA(t, c, configMaps, lag{most: time.Second, relist: 30, random: random})
			settle()
			maps := configMaps.list()
			if len(maps) != 3 {
				t.Errorf("seed %d: %d config maps", seed, len(maps))
			}
			for _, m := range maps {
				if m.Data["ca.crt"] != authority {
					t.Errorf("seed %d: %s has %q", seed, keyOf(m), m.Data["ca.crt"])
				}
			}
			p.stop(t)
		})
	}
}
