package dns_test

import (
	"context"
	"fmt"
	"net"

	miekg "github.com/miekg/dns"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server for a cluster with one service. In a program, the caches are informers.
func Example() {
	services := localcache.NewMap(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.20", Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	})
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server, err := dns.New(dns.Config{
		Services: services, EndpointSlices: localcache.NewMap[*discoveryv1.EndpointSlice](), PacketConns: []net.PacketConn{conn},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- server.Run(ctx) }()
	<-server.Ready()

	for _, q := range []struct {
		name string
		kind uint16
	}{
		{"web.default.svc.cluster.local.", miekg.TypeA},
		{"_http._tcp.web.default.svc.cluster.local.", miekg.TypeSRV},
		{"absent.default.svc.cluster.local.", miekg.TypeA},
	} {
		answer, _, err := new(miekg.Client).Exchange(new(miekg.Msg).SetQuestion(q.name, q.kind), conn.LocalAddr().String())
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(miekg.RcodeToString[answer.Rcode], answer.Answer)
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// NOERROR [web.default.svc.cluster.local.	5	IN	A	10.96.0.20]
	// NOERROR [_http._tcp.web.default.svc.cluster.local.	5	IN	SRV	0 100 80 web.default.svc.cluster.local.]
	// NXDOMAIN []
	// <nil>
}
