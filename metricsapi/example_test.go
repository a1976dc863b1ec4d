package metricsapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/metricsapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// source answers for every kubelet.
type source func(ctx context.Context, node *corev1.Node) (io.ReadCloser, error)

func (s source) Scrape(ctx context.Context, node *corev1.Node) (io.ReadCloser, error) {
	return s(ctx, node)
}

func text(s string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }

func Example() {
	nodes := localcache.NewMap(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	asked := make(chan bool)
	begin, n := time.Now(), 0
	server, err := metricsapi.New(metricsapi.Config{
		Nodes: nodes, Pods: localcache.NewMap[*corev1.Pod](), Resolution: time.Second,
		Kubelets: source(func(context.Context, *corev1.Node) (io.ReadCloser, error) {
			select {
			case asked <- true:
			default:
			}
			n++ // half a CPU
			return text(fmt.Sprintf("node_cpu_usage_seconds_total %d %d\nnode_memory_working_set_bytes 1048576\n",
				5*n, begin.Add(time.Duration(n)*10*time.Second).UnixMilli()))
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	for range 3 {
		<-asked // the third question comes after the second answer
	}
	answer := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/apis/metrics.k8s.io/v1beta1/nodes/node-1?includeObject=None", nil)
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	server.ServeHTTP(answer, request)
	_, rows, _ := strings.Cut(answer.Body.String(), `"rows":`)
	fmt.Print(rows)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// [{"cells":["node-1","500m","1Mi","10s"],"object":null}]}
	// <nil>
}
