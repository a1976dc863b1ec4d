package podnetwork_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/plane/podnetwork"
	"github.com/planekit/planekit/plane/stack"
)

func network(pods string) podnetwork.Network {
	return podnetwork.Network{
		Pods: netip.MustParsePrefix(pods), Backend: podnetwork.Backend{Type: "vxlan"}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
	}
}

// A control plane publishes the network as one of its parts.
func Example() {
	publish := func(ctx context.Context, p *plane.Plane, _ *stack.Stack) error {
		return podnetwork.Publish(ctx, p.Client(), network("10.244.0.0/16"))
	}
	p, err := plane.New(plane.Config{Parts: []plane.Part{publish}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	<-p.Ready()
	read, err := podnetwork.Read(ctx, p.Client(), logr.Discard())
	fmt.Println(read.Pods, read.Backend.Type, read.Services, err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 10.244.0.0/16 vxlan [10.96.0.0/12] <nil>
	// <nil>
}

// TestNodesRead: nodes may read the network and what an overlay and a proxy need, and others may not. A network that is
// published again replaces the first one.
func TestNodesRead(t *testing.T) {
	p := planetest.Start(t)
	node := p.As(user.NodePrefix+"n", user.Nodes)
	for _, pods := range []string{"10.244.0.0/16", "10.9.0.0/16"} {
		want := network(pods)
		if err := podnetwork.Publish(t.Context(), p.Client(), want); err != nil {
			t.Fatal(err)
		}
		var got podnetwork.Network
		planetest.Eventually(t, func() error { // roles are read from caches
			_, err := typed.ConfigMaps(node).Get(t.Context(), metav1.NamespaceSystem, "cluster-network")
			if err == nil {
				got, err = podnetwork.Read(t.Context(), node, logr.Discard())
			}
			return err
		})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
	planetest.Eventually(t, func() error {
		_, _, err := typed.EndpointSlices(node).List(t.Context(), "", metav1.ListOptions{})
		return err
	})
	for _, err := range []error{listed(t, typed.Pods(node)), listed(t, typed.Namespaces(node)), listed(t, typed.NetworkPolicies(node))} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := typed.ConfigMaps(p.As("jane")).Get(t.Context(), metav1.NamespaceSystem, "cluster-network"); err == nil {
		t.Error("jane reads the network")
	}
	published, err := typed.ConfigMaps(p.Client()).Get(t.Context(), metav1.NamespaceSystem, "cluster-network")
	if want := `{"Network":"10.9.0.0/16","Backend":{"Type":"vxlan"},"ServiceNetworks":["10.96.0.0/12"]}`; err != nil || published.Data["net-conf.json"] != want {
		t.Errorf("published %v: %v", published.Data, err)
	}
}

func listed[T client.Object](t *testing.T, of client.Resource[T]) error {
	_, _, err := of.List(t.Context(), "", metav1.ListOptions{})
	return err
}

// TestReadWaits: Read logs once why it waits, and takes nothing that has no range.
func TestReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, planetest.WithoutNetwork())
		if err := podnetwork.Publish(t.Context(), p.Client(), podnetwork.Network{}); err != nil {
			t.Fatal(err)
		}
		var lines []string
		log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := podnetwork.Read(ctx, p.Client(), log); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if len(lines) != 1 || !strings.Contains(lines[0], "net-conf.json") {
			t.Errorf("it said %q", lines)
		}
	})
}
