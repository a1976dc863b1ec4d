package intern_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"unsafe"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/intern"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func Example() {
	// A server has four pods of one template.
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for i := range 4 {
		list.Items = append(list.Items, *newPod(1, i, true))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		raw, _ := list.Marshal()
		body, _ := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Raw: raw}).Marshal()
		w.Header().Set("Content-Type", client.Protobuf)
		fmt.Fprintf(w, "k8s\x00%s", body)
	}))
	defer server.Close()
	c, err := client.New(client.Config{Server: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	// The shared resource is a source for an informer of pods.
	shared := typed.Pods(c).WithUnmarshal(intern.New().UnmarshalPod)
	pods, _, err := shared.List(context.Background(), "", metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, b := pods[2].Spec.Containers[0], pods[3].Spec.Containers[0]
	fmt.Println(a.Image, unsafe.StringData(a.Image) == unsafe.StringData(b.Image))
	// Output: registry.example.com/app-1:v1 true
}
