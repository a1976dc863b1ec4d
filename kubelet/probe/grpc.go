package probe

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
)

// grpc succeeds if the server says by the gRPC health checking protocol that the service is
// serving (https://github.com/grpc/grpc/blob/master/doc/health-checking.md).
func (c *Client) grpc(ctx context.Context, t Target, action *corev1.GRPCAction) (Result, string, error) {
	var service string
	if action.Service != nil {
		service = *action.Service
	}
	address := net.JoinHostPort(t.PodIP, strconv.Itoa(int(action.Port)))
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent(c.userAgent()),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // probes do not support TLS, as in Kubernetes
		grpc.WithNoProxy(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxOutput)),
		grpc.WithMaxHeaderListSize(maxHeaders), // also the message of an error
	)
	if err != nil {
		return Failure, "", err
	}
	defer func() { _ = conn.Close() }()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return Failure, fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message()), nil
	case codes.DeadlineExceeded:
		return Failure, fmt.Sprintf("timeout: health rpc to service %q did not complete in time", address), nil
	case codes.Unavailable:
		return Failure, fmt.Sprintf("error: failed to connect service %q: %s", address, status.Convert(err).Message()), nil
	default:
		return Failure, fmt.Sprintf("error: health rpc probe failed: %v", err), nil
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", answer.Status), nil
	}
	return Success, "service healthy", nil
}
