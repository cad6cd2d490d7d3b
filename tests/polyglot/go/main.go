// Program polyglot calls a server as any Go service would, and prints what it saw as one JSON object.
//
//	polyglot SERVER FRONT SERVICE_CONFIG
//
// FRONT leads to the same server, and refuses the first calls as UNAVAILABLE.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// seen is what the calls came to; the test compares it.
type seen struct {
	Imported  imported `json:"imported"`
	Retrieved []string `json:"retrieved"`
	Refused   refused  `json:"refused"`
	Late      refused  `json:"late"`
	Retried   []string `json:"retried"`
	Unretried refused  `json:"unretried"`
	Watched   watched  `json:"watched"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: polyglot SERVER FRONT SERVICE_CONFIG")
	}
	serviceConfig, err := os.ReadFile(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	found, err := run(os.Args[1], os.Args[2], string(serviceConfig))
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatal(err)
	}
}

// connect opens a channel with the deadlines and retries of the contract, and pings that the server permits.
func connect(address, serviceConfig string) (*grpc.ClientConn, error) {
	return grpc.NewClient(
		address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(serviceConfig),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
}

func run(server, front, serviceConfig string) (found seen, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	direct, err := connect(server, serviceConfig)
	if err != nil {
		return found, err
	}
	defer direct.Close()
	refusing, err := connect(front, serviceConfig)
	if err != nil {
		return found, err
	}
	defer refusing.Close()

	if found.Imported, err = importContexts(ctx, direct); err != nil {
		return found, fmt.Errorf("import: %w", err)
	}
	if found.Retrieved, err = retrieve(ctx, direct, found.Imported.Revision); err != nil {
		return found, fmt.Errorf("retrieve: %w", err)
	}
	if found.Refused, err = beRefused(ctx, direct); err != nil {
		return found, fmt.Errorf("bad request: %w", err)
	}
	if found.Late, err = beLate(ctx, direct); err != nil {
		return found, fmt.Errorf("deadline: %w", err)
	}
	if found.Retried, err = retrieve(ctx, refusing, 0); err != nil {
		return found, fmt.Errorf("retry: %w", err)
	}
	if found.Unretried, err = touch(ctx, refusing); err != nil {
		return found, fmt.Errorf("no retry: %w", err)
	}
	if found.Watched, err = watch(ctx, direct); err != nil {
		return found, fmt.Errorf("watch: %w", err)
	}
	return found, nil
}
