package nodestatus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// list returns resources from pairs of name and quantity.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// text returns resources as text, sorted by name.
func text(l corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		q := l[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, " ")
}

func TestAllocatable(t *testing.T) {
	capacity := list("cpu", "4", "memory", "8Gi", "ephemeral-storage", "100Gi", "pods", "110", "hugepages-2Mi", "1Gi")
	before := text(capacity)
	got := Allocatable(capacity, list("cpu", "500m", "memory", "1Gi"), nil, list("cpu", "250m", "memory", "512Mi", "pods", "200"))
	if want := "cpu=3250m ephemeral-storage=100Gi hugepages-2Mi=1Gi memory=5632Mi pods=0"; text(got) != want {
		t.Errorf("%s, want %s", text(got), want)
	}
	if text(capacity) != before {
		t.Error("the capacity has changed")
	}
	if err := CheckReserved(capacity, list("cpu", "3"), list("cpu", "1")); err != nil {
		t.Error(err)
	}
	err := CheckReserved(capacity, list("cpu", "3"), list("cpu", "1001m"), list("memory", "9Gi", "example.com/unknown", "1"))
	if want := `invalid Node Allocatable configuration. Resource "cpu" has a reservation of 4001m but capacity of 4. Expected capacity >= reservation. ` +
		`Resource "memory" has a reservation of 9Gi but capacity of 8Gi. Expected capacity >= reservation.`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestCapacity(t *testing.T) {
	machine := list("cpu", "4", "example.com/own", "2")
	got := Capacity(machine, list("cpu", "9", "memory", "1Gi", "example.com/own", "9", "example.com/others", "3"))
	if want := "cpu=4 example.com/others=3 example.com/own=2"; text(got) != want || len(machine) != 2 {
		t.Errorf("%s, want %s", text(got), want)
	}
}

func TestImages(t *testing.T) {
	var images []*runtimeapi.Image
	for i := range 60 {
		image := &runtimeapi.Image{Id: fmt.Sprintf("sha256:%02d", i), Size: uint64(i / 2), RepoTags: []string{fmt.Sprint("t", i)}, RepoDigests: []string{fmt.Sprint("d", i)}}
		if i == 59 {
			image.RepoTags = []string{"1", "2", "3", "4", "5", "6"}
		}
		images = append(images, image)
	}
	got := Images(images, DefaultImages)
	if len(got) != 50 || fmt.Sprint(got[0].Names) != "[d59 1 2 3 4]" || fmt.Sprint(got[1].Names) != "[d58 t58]" || got[0].SizeBytes != 29 || got[49].SizeBytes != 5 {
		t.Errorf("%d images: %v", len(got), got)
	}
	slices.Reverse(images)
	if fmt.Sprint(Images(images, DefaultImages)) != fmt.Sprint(got) {
		t.Error("the order depends on that of the runtime")
	}
	if images[0].Id != "sha256:59" || len(images[0].RepoTags) != 6 || Images(nil, DefaultImages) != nil {
		t.Error("the input has changed")
	}
}
