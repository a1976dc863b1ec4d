package kind_test

import (
	"testing"

	"github.com/planekit/planekit/kinds/kind"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestList fills a list as the server does, copies it and changes the original.
func TestList(t *testing.T) {
	made := widgets.NewList()
	if err := meta.SetList(made, []runtime.Object{
		&Widget{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"a": "b"}}, Color: "red"}, &Widget{},
	}); err != nil {
		t.Fatal(err)
	}
	accessor, err := meta.ListAccessor(made)
	if err != nil {
		t.Fatal(err)
	}
	count := int64(3)
	accessor.SetRemainingItemCount(&count)
	copied := made.DeepCopyObject()
	count = 4
	first := true
	if err := meta.EachListItem(made, func(item runtime.Object) error {
		if first {
			item.(*Widget).Labels["a"], first = "changed", false
		}
		return nil
	}); err != nil || first {
		t.Fatal(err)
	}
	items, err := meta.ExtractList(copied)
	if err != nil || len(items) != 2 {
		t.Fatal(items, err)
	}
	if one := items[0].(*Widget); one.Name != "one" || one.Color != "red" || one.Labels["a"] != "b" {
		t.Errorf("the copy has %+v", one)
	}
	if accessor, err := meta.ListAccessor(copied); err != nil || *accessor.GetRemainingItemCount() != 3 {
		t.Errorf("the copy shares the count: %v", err)
	}
}

// TestNoItems checks that a list without items stays one, so that JSON shows null and [] as before.
func TestNoItems(t *testing.T) {
	made := widgets.NewList()
	for _, want := range []bool{true, false} {
		at, err := meta.GetItemsPtr(made.DeepCopyObject())
		if err != nil {
			t.Fatal(err)
		}
		if items := *at.(*[]Widget); (items == nil) != want || len(items) != 0 {
			t.Errorf("items are %#v, want nil: %v", items, want)
		}
		at, err = meta.GetItemsPtr(made)
		if err != nil {
			t.Fatal(err)
		}
		*at.(*[]Widget) = []Widget{}
	}
}

type widgetList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []Widget
}

func (l *widgetList) DeepCopyObject() runtime.Object { return l }

// TestDefineKeeps checks that functions that a kind has are kept.
func TestDefineKeeps(t *testing.T) {
	k := widgets
	k.New = func() *Widget { return &Widget{Color: "red"} }
	k.NewList = func() runtime.Object { return &widgetList{} }
	k = kind.Define(k)
	if _, ok := k.NewList().(*widgetList); !ok || k.New().Color != "red" {
		t.Errorf("after Define NewList() = %T and New() = %+v, want a *widgetList and the color red", k.NewList(), k.New())
	}
}
