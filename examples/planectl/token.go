package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/join"
)

func (c *cli) tokenCommand() *cobra.Command {
	parent := &cobra.Command{Use: "token", Short: "Invite nodes by bootstrap tokens"}
	var config join.InviteConfig
	printJoin := false
	create := &cobra.Command{
		Use:   "create [TOKEN]",
		Short: "Create a token and what nodes need to join by it",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				config.Token = args[0]
			}
			return c.createToken(cmd.Context(), config, printJoin)
		},
	}
	create.Flags().DurationVar(&config.Lifetime, "ttl", join.DefaultLifetime, "how long the token can be used; a negative time means for ever")
	create.Flags().StringVar(&config.Description, "description", "", "what the token is for")
	create.Flags().BoolVar(&printJoin, "print-join-command", false, "print the flags with which a node joins")
	list := &cobra.Command{
		Use: "list", Short: "List the tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.listTokens(cmd.Context()) },
	}
	remove := &cobra.Command{
		Use: "delete TOKEN...", Short: "Delete tokens, given whole or by their IDs", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return c.deleteTokens(cmd.Context(), args) },
	}
	parent.AddCommand(create, list, remove)
	return parent
}

// createToken invites nodes to the cluster of the kubeconfig, by the URL that the kubeconfig has.
func (c *cli) createToken(ctx context.Context, config join.InviteConfig, printJoin bool) error {
	loaded, err := c.load()
	if err != nil {
		return err
	}
	var trusted []byte
	if config.Server, trusted, err = clusterOf(loaded, c.context); err != nil {
		return err
	}
	if config.Client, err = c.connect(); err != nil {
		return err
	}
	defer config.Client.Close()
	if config.CA, err = authorityOf(ctx, config.Client, trusted); err != nil {
		return err
	}
	if config.Lifetime == 0 {
		config.Lifetime = -1
	}
	invitation, err := join.Invite(ctx, config)
	if err != nil {
		return err
	}
	text := invitation.Token
	if printJoin {
		text = strings.Join(invitation.Args(), " ")
	}
	_, err = fmt.Fprintln(c.Out, text)
	return err
}

// authorityOf returns the cluster's own authority, which pods get. A kubeconfig may trust more, such as the
// authority of the certificate that the server shows outside the cluster. Nodes must not: they also believe
// the client certificates that their authorities have signed.
func authorityOf(ctx context.Context, api *client.Client, trusted []byte) ([]byte, error) {
	published, err := typed.ConfigMaps(api).Get(ctx, metav1.NamespaceDefault, "kube-root-ca.crt")
	switch {
	case apierrors.IsNotFound(err):
		return trusted, nil
	case err != nil:
		return nil, fmt.Errorf("the authority of the cluster: %w", err)
	}
	return []byte(published.Data["ca.crt"]), nil
}

// clusterOf returns the server and the trusted authorities of a context.
func clusterOf(config *kubeconfig.Config, name string) (server string, authority []byte, err error) {
	if name == "" {
		name = config.CurrentContext
	}
	cluster, ok := config.Clusters[config.Contexts[name].Cluster]
	if !ok || len(cluster.CertificateAuthorityData) == 0 {
		return "", nil, errors.New("the kubeconfig has no certificate-authority-data of the cluster")
	}
	return cluster.Server, cluster.CertificateAuthorityData, nil
}

func (c *cli) listTokens(ctx context.Context) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	tokens, err := join.Tokens(ctx, server)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.Out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tTTL\tUSAGES\tDESCRIPTION")
	for _, t := range tokens {
		left := "<forever>"
		switch until := time.Until(t.Expires); {
		case t.Expires.IsZero():
		case until <= 0:
			left = "<expired>"
		default:
			left = duration.ShortHumanDuration(until)
		}
		usages, description := "<none>", "<none>"
		if len(t.Usages) > 0 {
			usages = strings.Join(t.Usages, ",")
		}
		if t.Description != "" {
			description = t.Description
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.ID, left, usages, description)
	}
	return table.Flush()
}

func (c *cli) deleteTokens(ctx context.Context, tokens []string) error {
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	for _, token := range tokens {
		if err := join.Revoke(ctx, server, token); err != nil {
			return err
		}
		id, _, _ := strings.Cut(token, ".")
		fmt.Fprintf(c.Out, "bootstrap token %q deleted\n", id)
	}
	return nil
}
