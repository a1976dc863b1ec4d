package join_test

import (
	"context"
	"fmt"
	"os"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/join"
)

// A machine joins a control plane and starts again.
func Example() {
	p, err := plane.New(plane.Config{BootstrapTokens: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	<-p.Ready()
	invitation, err := join.Invite(ctx, join.InviteConfig{Client: p.Client(), Server: p.URL(), CA: p.Credentials.Authority.CertificatePEM})
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := os.MkdirTemp("", "join")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	for range 2 {
		j, err := join.New(join.Config{Server: invitation.Server, Token: invitation.Token, CAHashes: invitation.CAHashes, Node: "node-1", Dir: dir})
		if err != nil {
			fmt.Println(err)
			return
		}
		if err := j.Join(ctx); err != nil {
			fmt.Println(err)
			return
		}
		certificate, err := j.ClientCertificate(nil)
		fmt.Println(certificate.Leaf.Subject, err)
		invitation.Token = "" // the files are enough
	}
	// Output:
	// CN=system:node:node-1,O=system:nodes <nil>
	// CN=system:node:node-1,O=system:nodes <nil>
}
