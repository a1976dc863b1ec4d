package volumeclaim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func newClaim(size string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "uid"},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes},
	}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return c
}

func newVolume(name, size string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{AccessModes: modes,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func reserve(v *corev1.PersistentVolume, name string, uid types.UID) *corev1.PersistentVolume {
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: name, UID: uid}
	return v
}

func on(v *corev1.PersistentVolume, zone string) *corev1.PersistentVolume {
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
		{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}}}}}}
	return v
}

func edit[T any](object T, change func(T)) T {
	change(object)
	return object
}

func TestFind(t *testing.T) {
	const rwo, rwx = corev1.ReadWriteOnce, corev1.ReadWriteMany
	type pv = *corev1.PersistentVolume
	block := corev1.PersistentVolumeBlock
	here := map[string]string{"zone": "a"}
	small, large := newVolume("small", "1Gi", rwo), newVolume("large", "9Gi", rwo)
	for _, test := range []struct {
		name    string
		search  Search
		claim   *corev1.PersistentVolumeClaim
		volumes []pv
		want    string
	}{
		{"the smallest", Search{}, newClaim("1Gi", rwo), []pv{large, small}, "small"},
		{"large enough", Search{}, newClaim("2Gi", rwo), []pv{large, small}, "large"},
		{"none is large enough", Search{}, newClaim("10Gi", rwo), []pv{large, small}, ""},
		{"equal ones by name", Search{}, newClaim("1Gi", rwo), []pv{newVolume("b", "1Gi", rwo), newVolume("a", "1Gi", rwo)}, "a"},
		{"fewest access modes before size", Search{}, newClaim("1Gi", rwo), []pv{newVolume("both", "1Gi", rwo, rwx), large}, "large"},
		{"all access modes", Search{}, newClaim("1Gi", rwo, rwx), []pv{small, newVolume("both", "1Gi", rwo, rwx)}, "both"},
		{"reserved before smaller", Search{}, newClaim("1Gi", rwo), []pv{small, reserve(newVolume("mine", "9Gi", rwo), "data", "")}, "mine"},
		{"reserved for another", Search{}, newClaim("1Gi", rwo), []pv{reserve(newVolume("other", "1Gi", rwo), "other", "")}, ""},
		{"reserved for a predecessor", Search{}, newClaim("1Gi", rwo), []pv{reserve(newVolume("old", "1Gi", rwo), "data", "old")}, ""},
		{"reserved and too small", Search{}, newClaim("2Gi", rwo), []pv{reserve(newVolume("mine", "1Gi", rwo), "data", "uid"), large}, "large"},
		{"reserved ones only", Search{Reserved: true}, newClaim("1Gi", rwo), []pv{small}, ""},
		{"reserved ones only, reserved", Search{Reserved: true}, newClaim("1Gi", rwo), []pv{small, reserve(newVolume("mine", "9Gi", rwo), "data", "")}, "mine"},
		{"released", Search{}, newClaim("1Gi", rwo), []pv{edit(newVolume("v", "1Gi", rwo), func(v pv) { v.Status.Phase = corev1.VolumeReleased })}, ""},
		{"being deleted", Search{}, newClaim("1Gi", rwo), []pv{edit(newVolume("v", "1Gi", rwo), func(v pv) { v.DeletionTimestamp = new(metav1.Now()) })}, ""},
		{"other class", Search{}, newClaim("1Gi", rwo), []pv{edit(newVolume("v", "1Gi", rwo), func(v pv) { v.Spec.StorageClassName = "fast" })}, ""},
		{"other mode", Search{}, newClaim("1Gi", rwo), []pv{edit(newVolume("v", "1Gi", rwo), func(v pv) { v.Spec.VolumeMode = &block })}, ""},
		{"selector", Search{}, edit(newClaim("1Gi", rwo), func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
		}), []pv{small, edit(newVolume("ssd", "9Gi", rwo), func(v pv) { v.Labels = map[string]string{"disk": "ssd"} })}, "ssd"},
		{"taken", Search{Taken: func(name string) bool { return name == "small" }}, newClaim("1Gi", rwo), []pv{small, large}, "large"},
		{"on the node", Search{Node: here}, newClaim("1Gi", rwo), []pv{on(newVolume("there", "1Gi", rwo), "b"), on(newVolume("here", "9Gi", rwo), "a")}, "here"},
		{"reserved on another node", Search{Node: here}, newClaim("1Gi", rwo), []pv{small, reserve(on(newVolume("there", "1Gi", rwo), "b"), "data", "")}, ""},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		for range 5 {
			got, err := test.search.Find(test.claim, slices.Values(test.volumes))
			name := ""
			if got != nil {
				name = got.Name
			}
			if name != test.want || err != nil {
				t.Errorf("%s: %q, %v, want %q", test.name, name, err, test.want)
			}
			random.Shuffle(len(test.volumes), func(i, j int) {
				test.volumes[i], test.volumes[j] = test.volumes[j], test.volumes[i]
			})
		}
	}
}

func TestSatisfies(t *testing.T) {
	const rwo, rwx = corev1.ReadWriteOnce, corev1.ReadWriteMany
	block := corev1.PersistentVolumeBlock
	for want, change := range map[string]func(*corev1.PersistentVolume){
		"<nil>":                                 func(*corev1.PersistentVolume) {},
		`the volume is marked for deletion "v"`: func(v *corev1.PersistentVolume) { v.DeletionTimestamp = new(metav1.Now()) },
		"requested PV is too small": func(v *corev1.PersistentVolume) {
			v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
		},
		"storageClassName does not match":          func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "fast" },
		"volumeAttributesClassName does not match": func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = new("gold") },
		"incompatible volumeMode":                  func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = &block },
		"incompatible accessMode": func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{rwx}
		},
	} {
		v := newVolume("v", "1Gi", rwo)
		change(v)
		if got := fmt.Sprint(Satisfies(v, newClaim("1Gi", rwo))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestBind: binding completes a reservation, and is done once.
func TestBind(t *testing.T) {
	claim := newClaim("1Gi", corev1.ReadWriteOnce)
	for _, test := range []struct {
		v             *corev1.PersistentVolume
		changed, ours bool
	}{
		{newVolume("free", "1Gi"), true, true},
		{reserve(newVolume("reserved", "1Gi"), "data", ""), true, false},
		{reserve(newVolume("bound", "1Gi"), "data", "uid"), false, false},
	} {
		before := test.v.DeepCopy()
		bound, changed := Bind(test.v, claim)
		if changed != test.changed || bound.Spec.ClaimRef.UID != "uid" || (bound.Annotations[BoundByController] != "") != test.ours {
			t.Errorf("%s: changed %t: %v", test.v.Name, changed, bound)
		}
		if fmt.Sprint(before) != fmt.Sprint(test.v) {
			t.Errorf("%s was changed in place", test.v.Name)
		}
		if _, again := Bind(bound, claim); again {
			t.Errorf("%s is changed again", test.v.Name)
		}
	}
}

func TestFitsNode(t *testing.T) {
	term := func(terms ...corev1.NodeSelectorTerm) *corev1.PersistentVolume {
		v := newVolume("v", "1Gi")
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
		return v
	}
	expression := func(key string, op corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}
	}
	node := map[string]string{"zone": "a", "cores": "8"}
	for name, test := range map[string]struct {
		v    *corev1.PersistentVolume
		fits bool
	}{
		"no affinity": {newVolume("v", "1Gi"), true},
		"no terms":    {term(), false},
		"empty term":  {term(corev1.NodeSelectorTerm{}), false},
		"in":          {term(expression("zone", "In", "b", "a")), true},
		"not in":      {term(expression("zone", "NotIn", "a")), false},
		"greater":     {term(expression("cores", "Gt", "7")), true},
		"any term":    {term(expression("zone", "In", "b"), expression("zone", "Exists")), true},
		"unknown":     {term(expression("zone", "Like", "a")), false},
		"fields": {term(corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: "Exists"}}}), false},
	} {
		if got := FitsNode(test.v, node) == nil; got != test.fits {
			t.Errorf("FitsNode of the volume with %s and %v fits %t, want %t", name, node, got, test.fits)
		}
	}
}

func TestDefaultClass(t *testing.T) {
	class := func(name string, age int64, isDefault string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(1000-age, 0),
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": isDefault}}}
	}
	classes := []*storagev1.StorageClass{class("old", 9, "true"), class("z", 1, "true"), class("b", 1, "true"), class("new", 0, "false")}
	if got := DefaultClass(slices.Values(classes)); got == nil || got.Name != "b" {
		t.Errorf("default class %v, want b", got)
	}
	if got := DefaultClass(slices.Values(classes[3:])); got != nil {
		t.Errorf("default class %v, want none", got)
	}
}
