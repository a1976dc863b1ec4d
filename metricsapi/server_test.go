package metricsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/metricsapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// cluster is a server over fake kubelets, in a bubble of synctest. Containers use what their
// kubelets say.
type cluster struct {
	t      *testing.T
	nodes  *localcache.Map[*corev1.Node]
	pods   *localcache.Map[*corev1.Pod]
	server *metricsapi.Server

	mu      sync.Mutex
	answers map[string]func(ctx context.Context) (io.ReadCloser, error) // by node
	logged  []string
}

const resolution = 15 * time.Second

// run runs test with a cluster of the given nodes.
func run(t *testing.T, test func(c *cluster), nodes ...string) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{
			t: t, nodes: localcache.NewMap[*corev1.Node](), pods: localcache.NewMap[*corev1.Pod](),
			answers: map[string]func(context.Context) (io.ReadCloser, error){},
		}
		for _, name := range nodes {
			c.nodes.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}})
		}
		var err error
		c.server, err = metricsapi.New(metricsapi.Config{
			Nodes: c.nodes, Pods: c.pods, Kubelets: source(c.scrape), Resolution: resolution,
			Log: funcr.New(func(prefix, args string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.logged = append(c.logged, args)
			}, funcr.Options{}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.server.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		test(c)
	})
}

func (c *cluster) scrape(ctx context.Context, node *corev1.Node) (io.ReadCloser, error) {
	c.mu.Lock()
	answer := c.answers[node.Name]
	c.mu.Unlock()
	if answer == nil {
		return nil, errors.New("connection refused")
	}
	return answer(ctx)
}

// says sets the answer of a node.
func (c *cluster) says(node string, answer func(ctx context.Context) (io.ReadCloser, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[node] = answer
}

// saysText sets the answer of a node to lines.
func (c *cluster) saysText(node string, lines ...string) {
	c.says(node, func(context.Context) (io.ReadCloser, error) { return text(strings.Join(append(lines, ""), "\n")) })
}

// rounds waits until all kubelets have been asked n more times.
func (c *cluster) rounds(n int) {
	<-time.After(time.Duration(n) * resolution)
	synctest.Wait()
}

func (c *cluster) log() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := strings.Join(c.logged, "\n")
	c.logged = nil
	return out
}

func (c *cluster) addPod(namespace, name, uid, node string, containers ...string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid), Labels: map[string]string{"app": name}}}
	pod.Spec.NodeName = node
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container})
	}
	c.pods.Put(pod)
}

// ask returns the code and the body of an answer; path is below the group version.
func (c *cluster) ask(path string) (int, string) {
	answer := httptest.NewRecorder()
	c.server.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/apis/metrics.k8s.io/v1beta1/"+path, nil))
	return answer.Code, answer.Body.String()
}

// node returns the usage of a node as "cpu memory window", or the code of the answer.
func (c *cluster) node(name string) string {
	c.t.Helper()
	code, body := c.ask("nodes/" + name)
	var m metricsapi.NodeMetrics
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		c.t.Fatal(body, err)
	}
	if code != http.StatusOK {
		return fmt.Sprint(code)
	}
	return fmt.Sprint(m.Usage.Cpu(), " ", m.Usage.Memory(), " ", m.Window.Duration)
}

// pod returns the usage of a pod as "container cpu memory, ... window", or the code of the answer.
func (c *cluster) pod(namespace, name string) string {
	c.t.Helper()
	code, body := c.ask("namespaces/" + namespace + "/pods/" + name)
	var m metricsapi.PodMetrics
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		c.t.Fatal(body, err)
	}
	if code != http.StatusOK {
		return fmt.Sprint(code)
	}
	out := ""
	for _, u := range m.Containers {
		out += fmt.Sprint(u.Name, " ", u.Usage.Cpu(), " ", u.Usage.Memory(), ", ")
	}
	return out + fmt.Sprint(m.Window.Duration)
}

func (c *cluster) want(got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("got %q, want %q", got, want)
	}
}

// nodeUses returns the lines of a node that has used so much CPU, now.
func nodeUses(seconds float64) []string {
	return []string{fmt.Sprintf("node_cpu_usage_seconds_total %v %d", seconds, time.Now().UnixMilli()), "node_memory_working_set_bytes 2097152"}
}

// containerUses returns the lines of a container that has used so much CPU, now.
func containerUses(namespace, pod, container string, seconds float64) []string {
	labels := fmt.Sprintf("{container=%q,namespace=%q,pod=%q}", container, namespace, pod)
	return []string{
		fmt.Sprintf("container_cpu_usage_seconds_total%s %v %d", labels, seconds, time.Now().UnixMilli()),
		"container_memory_working_set_bytes" + labels + " 1048576",
	}
}

// uses returns an answer in which the node uses 1 CPU, and the containers a and b of the pods web and
// dns 1 and 2.
func uses(begin time.Time) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		age := time.Since(begin).Seconds()
		lines := nodeUses(age)
		for _, pod := range []string{"default/web", "kube-system/dns"} {
			namespace, name, _ := strings.Cut(pod, "/")
			lines = append(lines, containerUses(namespace, name, "a", age)...)
			lines = append(lines, containerUses(namespace, name, "b", 2*age)...)
		}
		return text(strings.Join(append(lines, ""), "\n"))
	}
}

// TestUsage follows a node and its pods over several answers.
func TestUsage(t *testing.T) {
	run(t, func(c *cluster) {
		c.addPod("default", "web", "1", "node-1", "a", "b")
		begin := time.Now()
		c.says("node-1", func(context.Context) (io.ReadCloser, error) {
			age := time.Since(begin).Seconds()
			lines := append(nodeUses(3*age), containerUses("default", "web", "a", age/10)...)
			return text(strings.Join(append(lines, append(containerUses("default", "web", "b", age/4), "")...), "\n"))
		})
		c.rounds(1) // the first answer has come
		c.want(c.node("node-1"), "404")
		c.want(c.pod("default", "web"), "404")
		if code, body := c.ask("pods"); code != 200 || !strings.Contains(body, `"items":[]`) {
			t.Errorf("GET pods: %d %s, want 200 and no items", code, body)
		}
		c.rounds(1)
		c.want(c.node("node-1"), "3 2Mi 15s")
		c.want(c.pod("default", "web"), "a 100m 1Mi, b 250m 1Mi, 15s")
		// A pod of the same name is another.
		c.addPod("default", "web", "2", "node-1", "a", "b")
		c.want(c.pod("default", "web"), "404")
		c.rounds(1)
		c.want(c.pod("default", "web"), "404")
		c.rounds(1)
		c.want(c.pod("default", "web"), "a 100m 1Mi, b 250m 1Mi, 15s")
		// A node that is gone has nothing, and one of its name begins again.
		node, _ := c.nodes.Get("node-1")
		c.nodes.Delete("node-1")
		synctest.Wait()
		c.want(c.pod("default", "web"), "404")
		c.want(c.node("node-1"), "404")
		c.nodes.Put(node)
		c.rounds(1)
		c.want(c.node("node-1"), "404")
		c.rounds(1)
		c.want(c.node("node-1"), "3 2Mi 15s")
	}, "node-1")
}

// TestStartedLately: the usage of a container is known within 5 seconds of its start. While many containers start, a
// kubelet is asked every 2 seconds, and then as before.
func TestStartedLately(t *testing.T) {
	run(t, func(c *cluster) {
		begin := time.Now()
		var asked atomic.Int64
		c.says("node-1", func(context.Context) (io.ReadCloser, error) {
			asked.Add(1)
			age := time.Since(begin).Seconds()
			return text(strings.Join(append(containerUses("default", "web", "a", age/10), ""), "\n"))
		})
		c.rounds(1)
		c.addPod("default", "web", "1", "node-1", "a")
		starts := func(id string) {
			pod, _ := c.pods.Get("default/web")
			pod = pod.DeepCopy()
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ContainerID: id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			c.pods.Put(pod)
		}
		time.Sleep(4 * time.Second)
		asked.Store(0)
		starts("1")
		time.Sleep(4900 * time.Millisecond)
		c.want(c.pod("default", "web"), "a 100m 1Mi, 2s")
		if n := asked.Load(); n != 2 {
			t.Errorf("within 5 s of a start the kubelet was asked %d times, want 2", n)
		}
		asked.Store(0)
		for i := range 200 {
			starts(fmt.Sprint("again", i))
			time.Sleep(100 * time.Millisecond)
		}
		if n := asked.Load(); n < 9 || n > 11 {
			t.Errorf("while containers start for 20 s the kubelet was asked %d times, want 10", n)
		}
		time.Sleep(5 * time.Second)
		asked.Store(0)
		pod, _ := c.pods.Get("default/web")
		c.pods.Put(pod.DeepCopy()) // nothing has started
		c.rounds(4)
		if n := asked.Load(); n != 4 {
			t.Errorf("in four periods without a start the kubelet was asked %d times, want 4", n)
		}
	}, "node-1")
}

// TestFreshAndRestarted: a container is measured since its start if that was lately, and again after
// a restart, by the time of the start or the counter.
func TestFreshAndRestarted(t *testing.T) {
	run(t, func(c *cluster) {
		c.addPod("default", "web", "1", "node-1", "a")
		says := func(cpu float64, age time.Duration) {
			c.says("node-1", func(context.Context) (io.ReadCloser, error) {
				started := fmt.Sprintf(`container_start_time_seconds{container="a",namespace="default",pod="web"} %.3f`, float64(time.Now().Add(-age).UnixMilli())/1000)
				return text(strings.Join(append(containerUses("default", "web", "a", cpu), started, ""), "\n"))
			})
			c.rounds(1)
		}
		says(6, 12*time.Second)
		c.want(c.pod("default", "web"), "a 500m 1Mi, 12s")
		says(9, 27*time.Second)
		c.want(c.pod("default", "web"), "a 200m 1Mi, 15s")
		says(10, 4*time.Second) // restarted, but more CPU time than before
		c.want(c.pod("default", "web"), "404")
		says(13, 19*time.Second)
		c.want(c.pod("default", "web"), "a 200m 1Mi, 15s")
		says(1, 34*time.Second) // the counter was reset
		c.want(c.pod("default", "web"), "404")
	}, "node-1")
}

// TestSameAnswerAgain: an answer with the timestamps of the one before is no news.
func TestSameAnswerAgain(t *testing.T) {
	run(t, func(c *cluster) {
		c.rounds(1)
		first, at := nodeUses(10), time.Now()
		c.saysText("node-1", first...)
		c.rounds(3)
		c.saysText("node-1", nodeUses(40)...)
		window := time.Since(at)
		c.rounds(1)
		want := fmt.Sprintf("%s 2Mi %v", "666666667n", window)
		c.want(c.node("node-1"), want)
		c.rounds(2)
		c.want(c.node("node-1"), want)
		c.saysText("node-1", append(first, "")...) // the clock was set back
		c.rounds(1)
		c.want(c.node("node-1"), "404")
	}, "node-1")
}

// TestFailures: a kubelet that is away, hangs, lies or does not end is given up, which is logged
// once, and the others go on.
func TestFailures(t *testing.T) {
	const labels = `{container="a",namespace="default",pod="web"}`
	endless := func(chunk string, pause time.Duration) func(ctx context.Context) (io.ReadCloser, error) {
		return func(ctx context.Context) (io.ReadCloser, error) {
			read, write := io.Pipe()
			go func() {
				for {
					select {
					case <-ctx.Done():
						write.CloseWithError(ctx.Err())
						return
					case <-time.After(pause):
					}
					if _, err := io.WriteString(write, chunk); err != nil {
						return
					}
				}
			}()
			return read, nil
		}
	}
	for name, failure := range map[string]struct {
		answer func(ctx context.Context) (io.ReadCloser, error)
		want   string
	}{
		"away": {nil, "connection refused"},
		"hangs": {func(ctx context.Context) (io.ReadCloser, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, "no complete answer within 10s"},
		"slow and endless": {endless("node_cpu_usage_seconds_total 1\n", time.Second), "no complete answer within 10s"},
		"fast and endless": {endless(strings.Repeat("# "+strings.Repeat("-", 1<<13)+"\n", 1<<7), time.Millisecond), "the metrics are longer than 16777216 bytes"},
		"one endless line": {endless(strings.Repeat("o", 1<<10), time.Millisecond), "line 1 of the metrics is longer than 16384 bytes"},
		"cut off":          {func(context.Context) (io.ReadCloser, error) { return text("node_cpu_usage_seconds_total 1") }, "line 1 of the metrics is cut off"},
		"no metrics":       {func(context.Context) (io.ReadCloser, error) { return text("<html>\n") }, "line 1 of the metrics: a metric cannot begin with"},
		"no statistics":    {func(context.Context) (io.ReadCloser, error) { return text("resource_scrape_error 1\n") }, "has no statistics"},
		"no number":        {func(context.Context) (io.ReadCloser, error) { return text("node_cpu_usage_seconds_total NaN\n") }, "node_cpu_usage_seconds_total: NaN is not possible"},
		"infinite":         {func(context.Context) (io.ReadCloser, error) { return text("node_memory_working_set_bytes +Inf\n") }, "+Inf is not possible"},
		"negative": {func(context.Context) (io.ReadCloser, error) {
			return text("container_memory_working_set_bytes" + labels + " -1\n")
		}, "container_memory_working_set_bytes: -1 is not possible"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(c *cluster) {
				c.addPod("default", "web", "1", "node-1", "a")
				begin := time.Now()
				good := func(context.Context) (io.ReadCloser, error) {
					age := time.Since(begin).Seconds()
					return text(strings.Join(append(nodeUses(age), append(containerUses("default", "web", "a", age), "")...), "\n"))
				}
				c.says("node-1", good)
				c.says("node-2", good)
				c.rounds(2)
				c.want(c.pod("default", "web"), "a 1 1Mi, 15s")
				c.want(c.log(), "")
				c.says("node-1", failure.answer)
				c.rounds(2)
				if log := c.log(); strings.Count(log, "\n") != 0 || !strings.Contains(log, failure.want) || !strings.Contains(log, `"node"="node-1"`) {
					t.Errorf("logged %s, want %q", log, failure.want)
				}
				c.want(c.pod("default", "web"), "a 1 1Mi, 15s") // the last numbers
				c.rounds(2)
				c.want(c.pod("default", "web"), "404")
				c.want(c.node("node-1"), "404")
				c.want(c.node("node-2"), "1 2Mi 15s")
				c.says("node-1", good)
				c.rounds(1)
				c.want(c.pod("default", "web"), "404") // not since the last answer: that is too long ago
				if log := c.log(); !strings.Contains(log, "can be read again") || strings.Count(log, "\n") != 0 {
					t.Errorf("logged %s", log)
				}
				c.rounds(1)
				c.want(c.pod("default", "web"), "a 1 1Mi, 15s")
			}, "node-1", "node-2")
		})
	}
}

// TestOthersPods: a kubelet is not believed about pods that are not bound to its node, nor about
// containers that a pod does not have.
func TestOthersPods(t *testing.T) {
	run(t, func(c *cluster) {
		c.addPod("default", "mine", "1", "node-1", "a")
		c.addPod("default", "theirs", "2", "node-2", "a")
		begin := time.Now()
		answer := func(factor float64, pods ...string) func(context.Context) (io.ReadCloser, error) {
			return func(context.Context) (io.ReadCloser, error) {
				var lines []string
				for _, pod := range pods {
					for _, container := range []string{"a", "b"} {
						lines = append(lines, containerUses("default", pod, container, factor*time.Since(begin).Seconds())...)
					}
				}
				return text(strings.Join(append(lines, ""), "\n"))
			}
		}
		c.says("node-1", answer(1, "mine"))
		c.says("node-2", answer(2, "mine", "theirs", "none"))
		c.rounds(2)
		c.want(c.pod("default", "mine"), "a 1 1Mi, 15s")
		c.want(c.pod("default", "theirs"), "a 2 1Mi, 15s")
		c.want(c.pod("default", "none"), "404")
		// A container without memory makes its pod unknown.
		c.says("node-2", func(context.Context) (io.ReadCloser, error) {
			return text(containerUses("default", "theirs", "a", 100)[0] + "\n")
		})
		c.rounds(1)
		c.want(c.pod("default", "theirs"), "404")
		// More CPUs than a machine can have are not believed.
		c.saysText("node-1", append(containerUses("default", "mine", "a", 1e15), "")...)
		c.rounds(1)
		c.want(c.pod("default", "mine"), "404")
	}, "node-1", "node-2")
}

func TestNewErrors(t *testing.T) {
	nodes, pods := localcache.NewMap[*corev1.Node](), localcache.NewMap[*corev1.Pod]()
	good := metricsapi.Config{Nodes: nodes, Pods: pods, Kubelets: source(nil)}
	for want, change := range map[string]func(*metricsapi.Config){
		"Nodes, Pods or Kubelets is missing":      func(c *metricsapi.Config) { c.Pods = nil },
		"Resolution 1ms is shorter than a second": func(c *metricsapi.Config) { c.Resolution = time.Millisecond },
		"Timeout -1s is negative":                 func(c *metricsapi.Config) { c.Timeout = -time.Second },
	} {
		config := good
		change(&config)
		if _, err := metricsapi.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
