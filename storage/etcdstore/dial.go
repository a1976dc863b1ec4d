package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	defaultDialTimeout = 5 * time.Second
	// A connection that is silent for keepAlive is tested, and closed without an answer within
	// keepAliveTimeout. The values are kube-apiserver's.
	keepAlive        = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
)

// DialConfig configures Dial.
type DialConfig struct {
	// Endpoints are the members' client addresses, such as
	// "https://10.0.0.1:2379". At least one is required. With TLS a bare
	// "10.0.0.1:2379" means https.
	Endpoints []string
	// TLS holds the trusted authorities and the client's certificate. Nil means plain text; every
	// endpoint must then begin with http://.
	TLS *tls.Config
	// Timeout bounds the wait for an answer. Zero means 5 seconds. Diagnosing an etcd that does not
	// answer takes at most 2 seconds more.
	Timeout time.Duration
}

// Dial connects to etcd and checks that it answers. The client outlives ctx; the caller must close
// it.
func Dial(ctx context.Context, c DialConfig) (*clientv3.Client, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("etcdstore: %w", err)
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = defaultDialTimeout
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            c.Endpoints,
		TLS:                  c.TLS,
		DialTimeout:          timeout,
		DialKeepAliveTime:    keepAlive,
		DialKeepAliveTimeout: keepAliveTimeout,
		Logger:               zap.NewNop(),
		DialOptions:          []grpc.DialOption{grpc.WithChainUnaryInterceptor(once)},
	})
	if err != nil {
		return nil, fmt.Errorf("etcdstore: %w", err)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A linearizable read of any key requires a quorum.
	_, err = client.Get(bounded, "\x00", clientv3.WithCountOnly())
	if err == nil {
		return client, nil
	}
	_ = client.Close()
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", timeout)
	}
	return nil, fmt.Errorf("etcdstore: etcd at %s: %w%s", strings.Join(c.Endpoints, ", "), err, c.diagnose(ctx))
}

const transaction = "/etcdserverpb.KV/Txn"

// once keeps the client library from repeating a transaction. The library repeats every call that ends with
// Canceled or DeadlineExceeded before its context does, as it may if a member or a proxy gives up first. The
// transaction may have been committed then, and the repetition would be refused.
func once(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, o...)
	if code := status.Code(err); method == transaction && ctx.Err() == nil && (code == codes.Canceled || code == codes.DeadlineExceeded) {
		return status.Errorf(codes.Unknown, "the outcome of the transaction is unknown: %v", err)
	}
	return err
}

func (c DialConfig) check() error {
	if len(c.Endpoints) == 0 {
		return errors.New("no etcd endpoints")
	}
	if c.Timeout < 0 {
		return fmt.Errorf("negative time-out: %v", c.Timeout)
	}
	for _, endpoint := range c.Endpoints {
		if _, err := c.host(endpoint); err != nil {
			return err
		}
		if plain := strings.HasPrefix(strings.ToLower(endpoint), "http://"); plain != (c.TLS == nil) {
			return fmt.Errorf("etcd endpoint %s: http:// and no TLS config go together", endpoint)
		}
	}
	return nil
}

// host returns the host and port of an endpoint.
func (c DialConfig) host(endpoint string) (string, error) {
	host := endpoint
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err != nil {
			return "", fmt.Errorf("etcd endpoint: %w", err)
		}
		if u.Scheme != "http" && u.Scheme != "https" {
			return "", fmt.Errorf("etcd endpoint %s: scheme must be http or https", endpoint)
		}
		host = u.Host
	}
	if _, _, err := net.SplitHostPort(host); err != nil {
		return "", fmt.Errorf("etcd endpoint %s: %w", endpoint, err)
	}
	return host, nil
}

// diagnoseTimeout bounds the second connection to an endpoint after a failed Dial. It must be long
// enough for a handshake on a busy machine.
const diagnoseTimeout = 2 * time.Second

// diagnose describes what is wrong with each endpoint; the timeout of a request does not.
func (c DialConfig) diagnose(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	found := make([]string, len(c.Endpoints))
	done := make(chan struct{}, len(c.Endpoints))
	for i, endpoint := range c.Endpoints {
		go func() {
			defer func() { done <- struct{}{} }()
			if err := c.connect(ctx, endpoint); err != nil {
				found[i] = "; " + err.Error()
			}
		}()
	}
	for range c.Endpoints {
		<-done
	}
	return strings.Join(found, "")
}

// connect opens and closes a connection to endpoint.
func (c DialConfig) connect(ctx context.Context, endpoint string) error {
	host, err := c.host(endpoint)
	if err != nil {
		return err
	}
	var conn net.Conn
	if c.TLS != nil {
		conn, err = (&tls.Dialer{Config: c.TLS}).DialContext(ctx, "tcp", host)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", host)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", endpoint, err)
	}
	return conn.Close()
}
