package main

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/internal/scenario"
)

var programs string

func TestMain(m *testing.M) { scenario.Main(m, &programs) }

func TestScenariosFake(t *testing.T) {
	scenario.Run(t, scenario.Config{
		Dir: "testdata/fake", Programs: programs,
		Commands: map[string]func(*testscript.TestScript, bool, []string){"api": askAPI},
	})
}

func TestScenariosContainerd(t *testing.T) {
	if err := containerd.Available(); err != nil {
		t.Skip(err)
	}
	scenario.Run(t, scenario.Config{
		Dir: "testdata/containerd", Programs: programs, OneByOne: true,
		Commands: map[string]func(*testscript.TestScript, bool, []string){"api": askAPI},
	})
}

// askAPI is the command api of scripts: "api get PATH" prints what the API server answers, "api create PATH FILE" sends
// it an object, "api delete PATH" deletes one, "api each" reads the log of each pod of nginx, and runs a command in it, and
// "api each WANT COMMAND..." waits until a command prints WANT in each pod.
func askAPI(ts *testscript.TestScript, neg bool, arguments []string) {
	file, err := kubeconfig.Load(ts.Getenv("KUBECONFIG"))
	ts.Check(err)
	config, _, err := file.Client("")
	ts.Check(err)
	api, err := client.New(config)
	ts.Check(err)
	defer api.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	get := func(path string) []byte {
		answer, err := api.Do(ctx, client.Request{Path: path})
		ts.Check(err)
		return answer.Body
	}
	switch {
	case !neg && len(arguments) == 2 && arguments[0] == "get":
		_, err = ts.Stdout().Write(get(arguments[1]))
		ts.Check(err)
	case !neg && len(arguments) == 3 && arguments[0] == "create":
		_, err = api.Do(ctx, client.Request{Method: http.MethodPost, Path: arguments[1], ContentType: "application/json", Body: []byte(ts.ReadFile(arguments[2]))})
		ts.Check(err)
	case !neg && len(arguments) == 2 && arguments[0] == "delete":
		_, err = api.Do(ctx, client.Request{Method: http.MethodDelete, Path: arguments[1]})
		ts.Check(err)
	case !neg && len(arguments) > 2 && arguments[0] == "each":
		pods, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{})
		ts.Check(err)
		for _, pod := range pods {
			for {
				out, err := execute(ctx, config, pod.Name, arguments[2:]...)
				if err == nil && strings.Contains(out, arguments[1]) {
					break
				}
				if ctx.Err() != nil {
					ts.Fatalf("%q in %s says %q: %v", arguments[2:], pod.Name, out, err)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
	case !neg && len(arguments) == 1 && arguments[0] == "each":
		pods, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{})
		ts.Check(err)
		for _, pod := range pods {
			get("/api/v1/namespaces/default/pods/" + pod.Name + "/log")
			out, err := execute(ctx, config, pod.Name, "nginx", "-v")
			ts.Check(err)
			if !strings.Contains(out, "nginx version") {
				ts.Fatalf("nginx -v in %s on %s says %q", pod.Name, pod.Spec.NodeName, out)
			}
		}
	default:
		ts.Fatalf("usage: api get PATH, api create PATH FILE, api delete PATH, or api each [WANT COMMAND...]")
	}
}

// execute runs a command in a pod through the API server and returns its output and errors.
func execute(ctx context.Context, config client.Config, pod string, command ...string) (string, error) {
	query := url.Values{"stdout": {"true"}, "stderr": {"true"}, "command": command}
	address := strings.Replace(config.Server, "https", "wss", 1) + "/api/v1/namespaces/default/pods/" + pod + "/exec?" + query.Encode()
	dialer := websocket.Dialer{TLSClientConfig: config.TLS, Subprotocols: []string{"v5.channel.k8s.io"}}
	connection, answer, err := dialer.DialContext(ctx, address, nil)
	if err != nil {
		return "", err
	}
	answer.Body.Close()
	defer connection.Close()
	var out strings.Builder
	for {
		_, frame, err := connection.ReadMessage()
		if err != nil {
			return out.String(), nil // closed when the command has ended
		}
		if len(frame) > 0 && (frame[0] == 1 || frame[0] == 2) { // the channels of standard output and errors
			out.Write(frame[1:])
		}
	}
}
