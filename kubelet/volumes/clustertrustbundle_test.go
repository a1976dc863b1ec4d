package volumes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/kubelet/volumes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bundles has the anchors of bundles by their name.
type bundles map[string]string

func (b bundles) ByName(name string, optional bool) ([]byte, error) {
	if anchors, ok := b[name]; ok || optional {
		return []byte(anchors), nil
	}
	return nil, errors.New("not found")
}

func (b bundles) BySigner(signer string, selector *metav1.LabelSelector, optional bool) ([]byte, error) {
	return b.ByName(signer+fmt.Sprint(selector.MatchLabels), optional)
}

func TestClusterTrustBundle(t *testing.T) {
	known := bundles{"a": "anchors of a", "example.com/camap[x:y]": "anchors of a signer"}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	failed := `MountVolume.SetUp failed for volume "v" : `
	for name, c := range map[string]struct {
		bundles   volumes.TrustBundles
		source    corev1.ClusterTrustBundleProjection
		want, err string
	}{
		"name":     {known, corev1.ClusterTrustBundleProjection{Name: new("a")}, "anchors of a", ""},
		"signer":   {known, corev1.ClusterTrustBundleProjection{SignerName: new("example.com/ca"), LabelSelector: labels}, "anchors of a signer", ""},
		"missing":  {known, corev1.ClusterTrustBundleProjection{Name: new("b")}, "", failed + "not found"},
		"optional": {known, corev1.ClusterTrustBundleProjection{Name: new("b"), Optional: new(true)}, "", ""},
		"required": {known, corev1.ClusterTrustBundleProjection{Name: new("b"), Optional: new(false)}, "", failed + "not found"},
		"neither":  {known, corev1.ClusterTrustBundleProjection{}, "", failed + "ClusterTrustBundle projection requires either name or signerName to be set"},
		"no cache": {nil, corev1.ClusterTrustBundleProjection{Name: new("a"), Optional: new(true)}, "", failed + "ClusterTrustBundle projection is not supported in static kubelet mode"},
	} {
		c.source.Path = "ca/bundle.pem"
		from := sources()
		from.TrustBundles = c.bundles
		set, err := volumes.NewSet(volumes.Builtin(from)...)
		if err != nil {
			t.Fatal(err)
		}
		directory := t.TempDir()
		tearDownAfter(t, set, directory)
		paths, err := set.SetUp(t.Context(), volumePod(volume("v", projected(c.source))), directory)
		if err != nil || c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: have %v, want %s", name, err, c.err)
			}
			continue
		}
		if have, err := os.ReadFile(filepath.Join(paths["v"], "ca/bundle.pem")); err != nil || string(have) != c.want {
			t.Errorf("%s: have %q, %v", name, have, err)
		}
	}
}

// TestClusterTrustBundleFollows: a file has the new anchors when the volume is set up again, and the
// mode that the pod asks for.
func TestClusterTrustBundleFollows(t *testing.T) {
	known := bundles{"a": "first"}
	from := sources()
	from.TrustBundles = known
	set, err := volumes.NewSet(volumes.Builtin(from)...)
	if err != nil {
		t.Fatal(err)
	}
	source := projected(corev1.ClusterTrustBundleProjection{Name: new("a"), Path: "ca.pem"})
	source.Projected.DefaultMode = new(int32(0o444))
	pod, directory := volumePod(volume("v", source)), t.TempDir()
	tearDownAfter(t, set, directory)
	for _, want := range []string{"first", "second"} {
		known["a"] = want
		paths, err := set.SetUp(t.Context(), pod, directory)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(paths["v"], "ca.pem")
		have, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		if err != nil || statErr != nil || string(have) != want || info.Mode().Perm() != 0o444 {
			t.Errorf("have %q with %v, %v %v", have, info, err, statErr)
		}
	}
}

// tearDownAfter unmounts what is below the directory when the test ends.
func tearDownAfter(t *testing.T, set *volumes.Set, directory string) {
	t.Cleanup(func() {
		if err := set.TearDown(context.Background(), directory); err != nil {
			t.Error(err)
		}
	})
}

func projected(source corev1.ClusterTrustBundleProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &source}}}}
}
