package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/printers"
	"github.com/planekit/planekit/client/typed"
)

// decision describes a person's answer to signing requests.
type decision struct {
	verb, done, reason, message string
	kind, opposite              certificatesv1.RequestConditionType
}

var decisions = []decision{
	{"approve", "approved", "KubectlApprove", "This CSR was approved by kubectl certificate approve.", certificatesv1.CertificateApproved, certificatesv1.CertificateDenied},
	{"deny", "denied", "KubectlDeny", "This CSR was denied by kubectl certificate deny.", certificatesv1.CertificateDenied, certificatesv1.CertificateApproved},
}

func (c *cli) certificateCommand() *cobra.Command {
	parent := &cobra.Command{Use: "certificate", Short: "Approve and deny certificate signing requests"}
	for _, d := range decisions {
		parent.AddCommand(&cobra.Command{
			Use:   d.verb + " NAME...",
			Short: "Have requests " + d.done,
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return words("one or more CSRs must be specified as <name> or -f <filename>")
				}
				return c.decide(cmd.Context(), d, args)
			},
		})
	}
	return parent
}

// decide writes a decision into requests.
func (c *cli) decide(ctx context.Context, d decision, names []string) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	failed := false
	for _, name := range names {
		if err := d.write(ctx, typed.CertificateSigningRequests(server), name); err != nil {
			fmt.Fprintln(c.Err, describe(err))
			failed = true
			continue
		}
		if err := printers.Name(c.Out, "certificatesigningrequest."+certificatesv1.GroupName, name, d.done); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// write adds the condition to one request, unless it has it.
func (d decision) write(ctx context.Context, requests client.Resource[*certificatesv1.CertificateSigningRequest], name string) error {
	for {
		r, err := requests.Get(ctx, "", name)
		if err != nil {
			return err
		}
		has := func(kind certificatesv1.RequestConditionType) bool {
			return slices.ContainsFunc(r.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool { return c.Type == kind })
		}
		switch {
		case has(d.kind):
			return nil
		case has(d.opposite):
			return fmt.Errorf("certificate signing request %q is already %s", name, d.opposite)
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: d.kind, Status: corev1.ConditionTrue, Reason: d.reason, Message: d.message, LastUpdateTime: metav1.Now(),
		})
		if _, err = requests.UpdateSubresource(ctx, r, "approval"); !apierrors.IsConflict(err) {
			return err
		}
	}
}
