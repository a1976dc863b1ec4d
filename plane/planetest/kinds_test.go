package planetest_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Lamp is a kind of the test's own, and LampV1 its version before.
type (
	Lamp struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Color             string `json:"color"`
	}
	LampV1 struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Light             string `json:"light"`
	}
)

func (l *Lamp) DeepCopyObject() runtime.Object {
	return &Lamp{l.TypeMeta, *l.ObjectMeta.DeepCopy(), l.Color}
}

func (l *LampV1) DeepCopyObject() runtime.Object {
	return &LampV1{l.TypeMeta, *l.ObjectMeta.DeepCopy(), l.Light}
}

var (
	lampKind = kind.Define(kind.Kind[*Lamp]{
		Group: "example.com", Version: "v2", Kind: "Lamp", Plural: "lamps", Namespaced: true,
		Versions: []kind.Version{kind.NewVersion("v1",
			func(old *LampV1, l *Lamp) error { l.Color = old.Light; return nil },
			func(l *Lamp, old *LampV1) error { old.Light = l.Color; return nil })},
	})
	lampV1Kind = kind.In[*LampV1](lampKind, "v1")
)

// TestOwnKind checks that quota, garbage collection and the end of a namespace apply to a kind of a
// program's own, whichever version clients use.
func TestOwnKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, planetest.WithoutNetwork(), planetest.Names(1), planetest.With(func(c *plane.Config) {
			c.Resources = append(c.Resources, apiserver.For(lampKind, apiserver.Resource{}))
		}))
		api, ctx := p.Client(), t.Context()
		lamps, lampsV1 := client.For(api, lampKind), client.For(api, lampV1Kind)
		const counted = "count/lamps.example.com"
		if _, err := typed.ResourceQuotas(api).Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{counted: resource.MustParse("2")}},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := typed.Namespaces(api).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "brief"}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()

		owner, err := lampsV1.Create(ctx, &LampV1{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner"}, Light: "red"})
		if err != nil {
			t.Fatal(err)
		}
		owned := metav1.ObjectMeta{Namespace: "default", Name: "owned", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "example.com/v1", Kind: "Lamp", Name: owner.Name, UID: owner.UID},
		}}
		if _, err := lamps.Create(ctx, &Lamp{ObjectMeta: owned, Color: "blue"}); err != nil {
			t.Fatal(err)
		}
		third := metav1.ObjectMeta{Namespace: "default", Name: "third"}
		_, err1 := lamps.Create(ctx, &Lamp{ObjectMeta: third})
		_, err2 := lampsV1.Create(ctx, &LampV1{ObjectMeta: third})
		for _, err := range []error{err1, err2} {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota: two") {
				t.Errorf("a third lamp: %v", err)
			}
		}
		if _, err := lampsV1.Create(ctx, &LampV1{ObjectMeta: metav1.ObjectMeta{Namespace: "brief", Name: "a"}}); err != nil {
			t.Fatal(err)
		}

		if err := lamps.Delete(ctx, "default", "owner", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := typed.Namespaces(api).Delete(ctx, "", "brief", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if left, _, err := lampsV1.List(ctx, "", metav1.ListOptions{}); err != nil || len(left) != 0 {
			t.Errorf("left are %v, %v", left, err)
		}
		if _, err := typed.Namespaces(api).Get(ctx, "", "brief"); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace: %v", err)
		}
		quota, err := typed.ResourceQuotas(api).Get(ctx, "default", "two")
		if used := quota.Status.Used[counted]; err != nil || used.Value() != 0 {
			t.Errorf("used are %v, %v", quota.Status.Used, err)
		}
	})
}
