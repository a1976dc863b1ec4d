package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/plane/stack"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A control plane with three nodes whose containers are simulated.
func ExampleInMemory() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	p, err := plane.New(plane.Config{Parts: []plane.Part{nodes.InMemory(dir, 3)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	select {
	case <-p.Ready():
	case err := <-ended:
		fmt.Println(err)
		return
	}
	all, _, err := typed.Nodes(p.Client()).List(ctx, "", metav1.ListOptions{})
	for _, node := range all {
		fmt.Println(node.Name, node.Status.NodeInfo.ContainerRuntimeVersion != "")
	}
	stop()
	fmt.Println(err, <-ended)
	// Output:
	// node-1 true
	// node-2 true
	// node-3 true
	// <nil> <nil>
}

// broken is a runtime that does not start.
type broken struct{ nodes.Memory }

func (*broken) Start(context.Context, *stack.Stack) (string, error) {
	return "", errors.New("no space left")
}

// TestFailure checks that a node that does not start takes the control plane down, which says
// which node it was.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		part := func(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
			return nodes.Start(ctx, p, s,
				nodes.Config{Name: "good", Dir: dir, Address: "127.0.0.1", Runtime: &nodes.Memory{}},
				nodes.Config{Name: "bad", Dir: dir, Address: "127.0.0.1", Runtime: &broken{}},
			)
		}
		config := plane.Config{Parts: []plane.Part{part}}
		planetest.WithoutNetwork()(t, &config)
		p, err := plane.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "bad: no space left") {
			t.Errorf("run: %v", err)
		}
	})
}

// TestRequestTokens gets a token for an account as a kubelet does, and an error for one that does
// not exist.
func TestRequestTokens(t *testing.T) {
	p := planetest.Start(t)
	request := nodes.RequestTokens(p.Client())
	issued, err := request(t.Context(), "default", "default", &authenticationv1.TokenRequest{})
	if err != nil || issued.Status.Token == "" {
		t.Errorf("the request for default/default = %+v, %v, want a token", issued, err)
	}
	if _, err := request(t.Context(), "default", "nobody", &authenticationv1.TokenRequest{}); err == nil {
		t.Error("an account that does not exist got a token")
	}
}
