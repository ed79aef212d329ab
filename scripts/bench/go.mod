module ttfabric/scripts/bench

go 1.26.0

require (
	github.com/quic-go/quic-go v0.65.0
	ttfabric v0.0.0
)

require (
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace ttfabric => ../..
